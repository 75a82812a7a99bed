//! Tables of nccl-tests: text of any version (the last column pair is `#wrong` or `error`, `N/A` where a collective has no
//! in-place form), or JSON of 2.17 (`-J`). Rates are GB/s of 1e9 bytes; bus bandwidth is algorithm bandwidth times
//! `2(n-1)/n` for all-reduce and `(n-1)/n` for all-gather, reduce-scatter and all-to-all.

use super::ranks::{Contradiction, Told, told};
use super::{not_empty, plain};
use crate::error::{InputError, Kind};
use serde::Serialize;

/// One line of a table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Row {
    /// Message size.
    pub bytes: f64,
    /// Time out of place, in seconds.
    pub time_s: f64,
    /// Bus bandwidth, the better of both forms, in bytes per second.
    pub bus_bytes_per_s: f64,
    /// Algorithm and bus bandwidth out of place, as they are printed side by side.
    pub out_of_place: [f64; 2],
}

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// Ranks, if they are listed.
    pub ranks: Option<u64>,
    /// Nodes that they stand on, if they are listed.
    pub nodes: Option<u64>,
    /// What the devices are called, if they are listed.
    pub device: Option<String>,
    /// Whether the collective reduces.
    pub reduces: bool,
    /// Lines by growing size.
    pub rows: Vec<Row>,
    /// Lines of results without a size or a finite bandwidth.
    pub unusable: u64,
    /// Sizes of lines whose data arrived corrupted, in either form; they are in no row.
    pub wrong: Vec<f64>,
}

impl Table {
    /// What both bandwidths tell of the ranks.
    ///
    /// # Errors
    /// When they are those of no number of ranks.
    pub fn told(&self) -> Result<Option<Told>, Contradiction> {
        told(self.rows.iter().map(|row| row.out_of_place), self.reduces)
    }

    /// The largest bus bandwidth.
    pub fn plateau(&self) -> f64 {
        self.rows.iter().map(|r| r.bus_bytes_per_s).fold(0.0, f64::max)
    }

    /// The size at which half the plateau is reached, where the table shows it: between two of its sizes on a line.
    pub fn half_at(&self) -> Option<f64> {
        let half = self.plateau() / 2.0;
        let after = self.rows.iter().position(|r| r.bus_bytes_per_s >= half)?;
        let (a, b) = (self.rows.get(after.checked_sub(1)?)?, self.rows[after]);
        let share = (half - a.bus_bytes_per_s) / (b.bus_bytes_per_s - a.bus_bytes_per_s).max(f64::MIN_POSITIVE);
        Some(a.bytes * (b.bytes / a.bytes).powf(share.clamp(0.0, 1.0)))
    }
}

/// Reads a table.
///
/// # Errors
/// An empty text, no line of numbers, lines cut short, results that the test itself calls wrong, a table of one rank.
pub fn parse(text: &str) -> Result<Table, InputError> {
    not_empty(text, "what a test of nccl-tests prints")?;
    let text = plain(text);
    if text.trim_start().starts_with('{') {
        return json(&text);
    }
    let mut table = Table {
        ranks: None,
        nodes: None,
        device: None,
        reduces: false,
        rows: Vec::new(),
        unusable: 0,
        wrong: Vec::new(),
    };
    let mut hosts: Vec<&str> = Vec::new();
    let mut columns = None;
    // Older versions print the largest deviation in that place, which is rarely 0.
    let mut counts_wrong = false;
    let mut failed = None;
    for (number, line) in text.lines().enumerate() {
        let at = || format!("line {}", number + 1);
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(comment) = line.trim_start().strip_prefix('#') {
            let words: Vec<&str> = comment.split_whitespace().collect();
            if words.first() == Some(&"Rank") {
                table.ranks = Some(table.ranks.unwrap_or(0) + 1);
                let host = words.iter().position(|w| *w == "on").and_then(|i| words.get(i + 1));
                hosts.extend(host.filter(|h| !hosts.contains(h)).copied().into_iter().collect::<Vec<_>>());
                table.device = table.device.or_else(|| comment.split(']').nth(1).map(|d| d.trim().to_owned()));
            }
            if let Some(unit) = words.iter().find(|w| matches!(**w, "(ms)" | "(s)" | "(ns)")) {
                return Err(InputError::new(Kind::Unsupported).at(at()).found(unit).expected("times in (us)"));
            }
            if words.first() == Some(&"size") {
                columns = Some(words.len());
                counts_wrong = words.contains(&"#wrong");
            }
            if words.starts_with(&["Out", "of", "bounds"]) && words.last() == Some(&"FAILED") {
                failed.get_or_insert_with(|| (at(), line.trim()));
            }
            continue;
        }
        let Some(size) = words.first().and_then(|w| w.parse::<f64>().ok()) else { continue };
        if columns.is_none() && words.len() < 8 {
            continue;
        }
        let expected = columns.unwrap_or(words.len());
        if words.len() < expected.min(12) {
            return Err(InputError::new(Kind::Syntax)
                .at(at())
                .found(format!("{} columns", words.len()))
                .expected(format!("{expected}: is the text truncated?")));
        }
        // From the right: in-place wrong, busbw, algbw, time, then the same out of place.
        let from_right = |i: usize| words.len().checked_sub(i).and_then(|i| words[i].parse::<f64>().ok());
        let (Some(time), Some(out)) = (from_right(8), from_right(6)) else {
            return Err(InputError::new(Kind::InvalidValue)
                .at(at())
                .found(line.trim())
                .expected("numbers for time and bandwidth"));
        };
        let inside = from_right(2).unwrap_or(0.0);
        if counts_wrong && [1, 5].into_iter().any(|i| from_right(i).is_some_and(|n| n != 0.0)) {
            table.wrong.push(size);
            continue;
        }
        table.reduces |= words.iter().any(|w| matches!(*w, "sum" | "prod" | "max" | "min" | "avg"));
        let algorithm = from_right(7).unwrap_or(f64::NAN);
        table.rows.push(Row {
            bytes: size,
            time_s: time * 1e-6,
            bus_bytes_per_s: out.max(inside) * 1e9,
            out_of_place: [algorithm * 1e9, out * 1e9],
        });
    }
    // Which lines are wrong is known, or none of them can be trusted.
    if let Some((at, line)) = failed.filter(|_| table.wrong.is_empty()) {
        return Err(InputError::new(Kind::Unsupported).at(at).found(line).expected("a test whose results are right"));
    }
    table.nodes = (!hosts.is_empty()).then_some(hosts.len() as u64);
    finish(table)
}

fn finish(mut table: Table) -> Result<Table, InputError> {
    let all = table.rows.len();
    table.rows.retain(|r| r.bytes > 0.0 && r.bus_bytes_per_s.is_finite());
    table.unusable = (all - table.rows.len()) as u64;
    table.rows.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    if let (true, Some(size)) = (table.rows.is_empty(), table.wrong.first()) {
        return Err(InputError::new(Kind::Unsupported)
            .found(format!("{} lines whose data arrived corrupted, the first of {size} bytes", table.wrong.len()))
            .expected("a test whose results are right"));
    }
    if table.rows.is_empty() {
        return Err(InputError::new(Kind::Syntax)
            .found("no line of results")
            .expected("lines of size, count, type and bandwidths"));
    }
    if table.ranks == Some(1) || table.plateau() <= 0.0 {
        return Err(InputError::new(Kind::Unsupported)
            .found("a table of one rank, whose bus bandwidth is 0")
            .expected("a test over two ranks or more: one alone uses no link"));
    }
    Ok(table)
}

/// The JSON of `-J`: `results` with `size` and, per form, `time` and `busbw`.
fn json(text: &str) -> Result<Table, InputError> {
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|e| InputError::new(Kind::Syntax).found(e).expected("the JSON of nccl-tests"))?;
    let number = |v: &serde_json::Value, keys: &[&str]| keys.iter().find_map(|k| v.get(k)?.as_f64());
    let results = value
        .get("results")
        .and_then(|r| r.as_array())
        .ok_or_else(|| InputError::new(Kind::MissingField).at("results").expected("a list of measurements"))?;
    let ranks = number(&value, &["nranks", "ranks", "total_ranks"])
        .or_else(|| number(value.get("config")?, &["nranks", "ranks"]));
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for (i, result) in results.iter().enumerate() {
        let size = number(result, &["size", "size_bytes"]);
        let form = |name: &str| result.get(name).or(Some(result));
        let bus = ["out_of_place", "in_place"]
            .iter()
            .filter_map(|name| number(form(name)?, &["busbw", "bus_bw", "busBw"]))
            .fold(0.0, f64::max);
        let time = form("out_of_place").and_then(|f| number(f, &["time", "time_us"])).unwrap_or(0.0);
        let Some(bytes) = size else {
            return Err(InputError::new(Kind::MissingField).at(format!("results[{i}].size")).expected("bytes"));
        };
        let counted = |name: &str| number(form(name)?, &["#wrong", "wrong", "nwrong"]);
        if ["out_of_place", "in_place"].iter().any(|name| counted(name).is_some_and(|n| n != 0.0)) {
            wrong.push(bytes);
            continue;
        }
        let out = |keys: &[&str]| form("out_of_place").and_then(|f| number(f, keys)).map_or(f64::NAN, |x| x * 1e9);
        let out_of_place = [out(&["algbw", "alg_bw", "algBw"]), out(&["busbw", "bus_bw", "busBw"])];
        rows.push(Row { bytes, time_s: time * 1e-6, bus_bytes_per_s: bus * 1e9, out_of_place });
    }
    let reduces = text.contains("all_reduce") || text.contains("reduce_scatter");
    finish(Table { ranks: ranks.map(|n| n as u64), nodes: None, device: None, reduces, rows, unusable: 0, wrong })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "#  Rank  0 Group  0 Pid 1 on a device  0 [0x1b] NVIDIA H100 80GB HBM3\n\
        #  Rank  1 Group  0 Pid 1 on b device  0 [0x1b] NVIDIA H100 80GB HBM3\n\
        #       size         count      type   redop    root     time   algbw   busbw  error     time   algbw   busbw  error\n\
        1024 256 float sum -1 10.0 0.10 0.10 0 10.0 0.11 0.11 0\n\
        1048576 262144 float sum -1 20.0 52.0 52.0 1e-5 20.0 50.0 50.0 N/A\n";

    #[test]
    fn old_and_new_tables_are_read() {
        let table = parse(TABLE).unwrap();
        assert_eq!((table.ranks, table.nodes, table.reduces), (Some(2), Some(2), true));
        assert_eq!(table.device.as_deref(), Some("NVIDIA H100 80GB HBM3"));
        assert_eq!(table.plateau(), 52e9);
        assert!(table.half_at().is_some_and(|s| s > 1024.0 && s < 1048576.0));
        let json = r#"{"results": [{"size": 8, "out_of_place": {"time": 3.0, "busbw": 7.5}}]}"#;
        assert_eq!(parse(json).unwrap().plateau(), 7.5e9);
    }

    #[test]
    fn lines_whose_data_arrived_corrupted_are_named_and_left_out() {
        let text = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n\
            1024 256 float sum -1 10.0 0.10 0.10 0 10.0 0.11 0.11 0\n\
            2048 256 float sum -1 10.0 0.20 0.20 3 10.0 0.21 0.21 0\n\
            4096 256 float sum -1 10.0 0.40 0.40 0 10.0 0.41 0.41 N/A\n\
            8192 256 float sum -1 10.0 0.80 0.80 0 10.0 0.81 0.81 1\n";
        let table = parse(text).unwrap();
        assert_eq!((table.rows.len(), table.wrong), (2, vec![2048.0, 8192.0]));
        let all = parse(&text.replace(" 0 10.0", " 7 10.0")).unwrap_err();
        assert!(all.to_string().contains("corrupted"), "{all}");
        let json = r#"{"results": [{"size": 8, "out_of_place": {"time": 3.0, "busbw": 7.5, "nwrong": 2}},
            {"size": 16, "out_of_place": {"time": 3.0, "busbw": 9.5, "nwrong": 0}}]}"#;
        assert_eq!(parse(json).unwrap().wrong, [8.0]);
        let failed =
            "1024 256 float sum -1 10.0 0.10 0.10 1e-3 10.0 0.11 0.11 1e-3\n# Out of bounds values : 5 FAILED\n";
        assert!(parse(failed).is_err());
    }

    #[test]
    fn truncated_empty_and_single_rank_tables_are_refused() {
        let cut = &TABLE[..TABLE.len() - 30];
        for bad in ["", "# nothing\n", cut, "{", r#"{"results": []}"#] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        let alone = TABLE.lines().filter(|l| !l.contains("Rank  1")).collect::<Vec<_>>().join("\n");
        assert!(parse(&alone).is_err());
    }
}
