//! The matrix of `nvidia-smi topo -m`: tabs or blanks, NIC columns `NICn` with a legend or `mlx5_k`, terminal escapes in
//! the header, CPU lists that may be missing.

use super::{Nic, Node, Path, not_empty, plain};
use crate::error::{InputError, Kind};

fn path(word: &str) -> Option<Path> {
    Some(match word {
        "X" => Path::Same,
        "PIX" => Path::Pix,
        "PXB" => Path::Pxb,
        "PHB" => Path::Phb,
        "NODE" => Path::Node,
        "SYS" | "SOC" => Path::Sys,
        _ => Path::Nvlink(word.strip_prefix("NV").or(word.strip_prefix("XGMI")).and_then(|n| n.parse().ok())?),
    })
}

fn is_gpu(word: &str) -> bool {
    word.strip_prefix("GPU").is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()))
}

/// A column of a network card: `NIC3`, `mlx5_0`, `mlx5_bond_0`, `ibp24s0`, `bnxt_re0`, ...
fn is_nic(word: &str) -> bool {
    let head = word.to_ascii_lowercase();
    ["nic", "mlx", "ib", "bnxt", "efa", "rdma", "rocep", "irdma", "hfi", "qedr", "hns", "cxi"]
        .iter()
        .any(|p| head.starts_with(p))
}

/// Reads the matrix.
///
/// # Errors
/// An empty text, no header of accelerators, rows that are missing, short, or hold words that are no path.
pub fn parse(text: &str) -> Result<Node, InputError> {
    not_empty(text, "what `nvidia-smi topo -m` prints")?;
    let text = plain(text);
    let mut lines = text.lines().enumerate();
    let header = lines.find(|(_, line)| line.split_whitespace().next().is_some_and(is_gpu));
    let Some((_, header)) = header else {
        let first = text.lines().find(|l| !l.trim().is_empty()).unwrap_or_default();
        let error = InputError::new(Kind::Syntax).found(first.trim());
        return Err(error.expected("a header line `GPU0 GPU1 ..` of `nvidia-smi topo -m`"));
    };
    let columns: Vec<&str> = header.split_whitespace().take_while(|w| is_gpu(w) || is_nic(w)).collect();
    let gpus = columns.iter().filter(|w| is_gpu(w)).count();
    if columns[..gpus].iter().any(|w| !is_gpu(w)) {
        return Err(InputError::new(Kind::Unsupported)
            .at("header")
            .found(header.trim())
            .expected("accelerators before network cards"));
    }
    let mut rows: Vec<Option<(Vec<Path>, Option<u64>)>> = vec![None; gpus];
    let mut legend: Vec<(String, String)> = Vec::new();
    for (number, line) in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(name) = words.first() else { continue };
        // `NIC0: mlx5_3` of the legend.
        if let (Some(card), Some(device)) = (name.strip_suffix(':').filter(|n| is_nic(n)), words.get(1)) {
            legend.push((card.to_owned(), (*device).to_owned()));
            continue;
        }
        if !is_gpu(name) {
            continue;
        }
        let Some(row) = columns[..gpus].iter().position(|c| c == name) else {
            return Err(InputError::new(Kind::Inconsistent)
                .at(format!("line {}", number + 1))
                .found(name)
                .expected("an accelerator of the header"));
        };
        if words.len() <= columns.len() {
            return Err(InputError::new(Kind::Syntax)
                .at(format!("line {}", number + 1))
                .found(format!("{} paths", words.len() - 1))
                .expected(format!("{}, one for each column: is the text truncated?", columns.len())));
        }
        let mut paths = Vec::with_capacity(columns.len());
        for (word, column) in words[1..=columns.len()].iter().zip(&columns) {
            paths.push(path(word).ok_or_else(|| {
                InputError::new(Kind::InvalidValue)
                    .at(format!("line {}, column {column}", number + 1))
                    .found(word)
                    .expected("X, NVn, PIX, PXB, PHB, NODE or SYS")
            })?);
        }
        // Behind the paths: CPU list (may be missing), NUMA node.
        let rest = &words[columns.len() + 1..];
        let numa = match rest {
            [_, numa, ..] => numa.parse().ok(),
            _ => None,
        };
        rows[row] = Some((paths, numa));
    }
    let mut node = Node { devices: gpus as u64, ..Node::default() };
    for (i, row) in rows.into_iter().enumerate() {
        let Some((paths, numa)) = row else {
            return Err(InputError::new(Kind::MissingField)
                .at(columns[i])
                .expected("a row for every accelerator: is the text truncated?"));
        };
        let (to_gpus, to_nics) = paths.split_at(gpus);
        node.paths.push(to_gpus.to_vec());
        node.to_nics.push(to_nics.to_vec());
        node.numa.push(numa);
    }
    for i in 0..gpus {
        for j in 0..gpus {
            if node.paths[i][j] != node.paths[j][i] || (i == j) != (node.paths[i][j] == Path::Same) {
                let error = InputError::new(Kind::Inconsistent).at(format!("GPU{i}, GPU{j}"));
                return Err(error.expected("a symmetric matrix with X on its diagonal"));
            }
        }
    }
    node.nics = columns[gpus..]
        .iter()
        .map(|name| {
            let told = legend.iter().find(|(card, _)| card == name).map(|(_, device)| device.clone());
            Nic { name: told.unwrap_or_else(|| (*name).to_owned()), gigabits: None }
        })
        .collect();
    if node.nvlink_groups().iter().all(|(group, _)| group.len() == 1) && gpus > 1 {
        node.notes.push("no NVLink is shown; `-mp` hides it".to_owned());
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_legends_and_missing_cpu_lists_are_read() {
        let text = "\t\u{1b}[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m\n\
                    GPU0\t X \tNV4\tPIX\t0-3\t0\t\tN/A\nGPU1\tNV4\t X \tSYS\t\n\
                    NIC0\tPIX\tSYS\t X \n\nNIC Legend:\n\n  NIC0: mlx5_7\n";
        let node = parse(text).unwrap();
        assert_eq!((node.devices, node.nics[0].name.as_str()), (2, "mlx5_7"));
        assert_eq!(node.nearest_nics(), [[0], [0]]);
        assert_eq!(node.nvlink_groups(), [(vec![0, 1], 4)]);
        assert_eq!(node.numa, [Some(0), None]);
    }

    #[test]
    fn truncated_and_foreign_texts_are_refused() {
        let good = "\tGPU0\tGPU1\nGPU0\tX\tPHB\nGPU1\tPHB\tX\n";
        assert!(parse(good).is_ok());
        for bad in [
            "",
            "hello\n",
            "\tGPU0\tGPU1\nGPU0\tX\tPHB\n",
            "\tGPU0\tGPU1\nGPU0\tX\nGPU1\tPHB\tX\n",
            "\tGPU0\tGPU1\nGPU0\tX\tQQQ\nGPU1\tPHB\tX\n",
            "\tGPU0\tGPU1\nGPU0\tX\tPHB\nGPU1\tSYS\tX\n",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
