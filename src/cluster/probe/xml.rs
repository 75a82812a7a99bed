//! NCCL's topology XML: `system/cpu/pci/(gpu|nic/net)`. Clouds ship files of `cpu` and `pci` only; a dump of NCCL holds
//! NVLinks and rates too. Widths of 0 and speeds of virtual bridges are not believed; rates of cards are in Mb/s, or in
//! kb/s where they would be absurd (Slingshot).

use super::{Nic, Node, Path, not_empty};
use crate::error::{InputError, Kind};
use roxmltree::{Document, Node as Element};

/// PCI classes by their first two bytes: display and processing, network, InfiniBand.
const GPU: [&str; 2] = ["0x03", "0x12"];
const NIC: [&str; 2] = ["0x02", "0x0207"];
/// A card of more than this, in Mb/s, was written in kb/s: ten times the fastest sold (800 Gb/s, 2026).
const ABSURD: f64 = 8e6;

struct Found {
    /// From the root down: NUMA node, then PCI bridges.
    chain: Vec<String>,
}

struct Gpu {
    at: Found,
    bus: String,
    order: Option<u64>,
    links: Vec<(String, String, u64)>,
}

struct Card {
    at: Found,
    name: String,
    gigabits: Option<f64>,
}

/// Reads a topology.
///
/// # Errors
/// An empty or truncated text, a file of another kind (NCCL's graphs), devices that cannot be told apart.
pub fn parse(text: &str) -> Result<Node, InputError> {
    not_empty(text, "NCCL's topology XML")?;
    let text = text.trim_start_matches('\u{feff}');
    let document = Document::parse(text).map_err(|e| {
        InputError::new(Kind::Syntax)
            .at(format!("line {}", e.pos().row))
            .found(e)
            .expected("XML: is the file truncated?")
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "system" {
        let found = format!("<{}>", root.tag_name().name());
        let error = InputError::new(Kind::Unsupported).at("root").found(found).expected("<system>, a topology");
        return Err(if root.tag_name().name() == "graphs" {
            error.help("this is a file of NCCL's rings and trees (NCCL_GRAPH_FILE), which has no devices and links")
        } else {
            error
        });
    }
    let mut node = Node::default();
    let (mut gpus, mut cards) = (Vec::new(), Vec::new());
    let mut unknown = 0;
    for (i, cpu) in root.children().filter(|c| c.has_tag_name("cpu")).enumerate() {
        let numa = cpu.attribute("numaid").map_or_else(|| format!("cpu{i}"), str::to_owned);
        walk(cpu, &mut vec![numa], &mut gpus, &mut cards, &mut unknown);
    }
    if gpus.is_empty() {
        let found =
            if unknown > 0 { format!("{unknown} PCI devices without a class") } else { "no accelerator".to_owned() };
        let error = InputError::new(Kind::Unsupported).at("pci").found(found);
        return Err(error.expected(
            "PCI devices of class 0x03 or 0x12, or <gpu> elements: else nothing tells them from network cards",
        ));
    }
    if unknown > 0 {
        node.notes.push(format!("{unknown} PCI devices without a class are left out"));
    }
    // A dump numbers its devices; other files list them in the order of the machine.
    gpus.sort_by_key(|g: &Gpu| g.order.unwrap_or(u64::MAX));
    node.devices = gpus.len() as u64;
    node.numa = gpus.iter().map(|g| g.at.chain.first().and_then(|n| n.parse().ok())).collect();
    node.paths = gpus
        .iter()
        .enumerate()
        .map(|(i, a)| gpus.iter().enumerate().map(|(j, b)| between(&gpus, (i, a), (j, b))).collect())
        .collect();
    node.to_nics = gpus.iter().map(|g| cards.iter().map(|c: &Card| distance(&g.at, &c.at)).collect()).collect();
    node.nics = cards.into_iter().map(|c| Nic { name: c.name, gigabits: c.gigabits }).collect();
    if gpus.iter().all(|g| g.links.is_empty()) && gpus.len() > 1 {
        node.notes.push("the file says nothing of NVLinks".to_owned());
    }
    Ok(node)
}

fn walk(at: Element<'_, '_>, chain: &mut Vec<String>, gpus: &mut Vec<Gpu>, cards: &mut Vec<Card>, unknown: &mut u64) {
    let found = |chain: &[String]| Found { chain: chain.to_vec() };
    for child in at.children().filter(Element::is_element) {
        match child.tag_name().name() {
            "pci" => {
                let bus = child.attribute("busid").unwrap_or_default().to_owned();
                let class = child.attribute("class").unwrap_or_default();
                let gpu = child.children().find(|c| c.has_tag_name("gpu"));
                let nic = child.children().any(|c| c.has_tag_name("nic"));
                let inner = child.children().any(|c| c.has_tag_name("pci"));
                if gpu.is_some() || GPU.iter().any(|c| class.starts_with(c)) {
                    gpus.push(accelerator(gpu, bus, found(chain)));
                } else if nic {
                    chain.push(bus);
                    walk(child, chain, gpus, cards, unknown);
                    // A card hangs where its PCI function does.
                    let own = chain.pop();
                    for card in cards.iter_mut().filter(|c| c.at.chain.last() == own.as_ref()) {
                        card.at.chain.pop();
                    }
                } else if NIC.iter().any(|c| class.starts_with(c)) {
                    cards.push(Card { at: found(chain), name: bus, gigabits: None });
                } else if inner {
                    chain.push(bus);
                    walk(child, chain, gpus, cards, unknown);
                    chain.pop();
                } else {
                    *unknown += 1;
                }
            }
            "nic" => {
                for net in child.children().filter(|c| c.has_tag_name("net")) {
                    let said = net.attribute("speed").and_then(|s| s.parse::<f64>().ok()).filter(|s| *s > 0.0);
                    let megabits = said.map(|s| if s > ABSURD { s / 1e3 } else { s });
                    let name = net.attribute("name").unwrap_or("net").to_owned();
                    cards.push(Card { at: found(chain), name, gigabits: megabits.map(|m| m / 1e3) });
                }
            }
            "gpu" | "cpu" | "nvlink" | "xgmi" | "c2c" => {}
            _ => walk(child, chain, gpus, cards, unknown),
        }
    }
}

fn accelerator(gpu: Option<Element<'_, '_>>, bus: String, at: Found) -> Gpu {
    let number = |e: Element<'_, '_>, name: &str| e.attribute(name).and_then(|n| n.parse().ok());
    let links =
        gpu.into_iter().flat_map(|g| g.children()).filter(|c| c.has_tag_name("nvlink") || c.has_tag_name("xgmi"));
    let links = links
        .map(|l| {
            let text = |name: &str| l.attribute(name).unwrap_or_default().to_owned();
            (text("target"), text("tclass"), number(l, "count").unwrap_or(1))
        })
        .collect();
    Gpu { at, order: gpu.and_then(|g| number(g, "dev")), bus, links }
}

/// Links between two accelerators: direct ones, or through the switches that both reach.
fn between(all: &[Gpu], (i, a): (usize, &Gpu), (j, b): (usize, &Gpu)) -> Path {
    if i == j {
        return Path::Same;
    }
    let direct: u64 = a.links.iter().filter(|(target, ..)| *target == b.bus).map(|l| l.2).sum();
    if direct > 0 {
        return Path::Nvlink(direct);
    }
    // A target that is no accelerator is a switch (class 0x0680, or the all-ones address).
    let to_switch = |g: &Gpu| {
        g.links
            .iter()
            .filter(|(target, ..)| *target != g.bus && all.iter().all(|o| o.bus != *target))
            .map(|l| l.2)
            .sum::<u64>()
    };
    let through = to_switch(a).min(to_switch(b));
    if through > 0 { Path::Nvlink(through) } else { distance(&a.at, &b.at) }
}

/// How near two PCI devices stand.
fn distance(a: &Found, b: &Found) -> Path {
    let same = a.chain.iter().zip(&b.chain).take_while(|(x, y)| x == y).count();
    match (same, a.chain.len().max(b.chain.len())) {
        (0, _) => Path::Sys,
        (1, 1) => Path::Phb,
        (1, _) => Path::Node,
        (n, longest) if n == longest => Path::Pix,
        _ => Path::Pxb,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_cards_and_absurd_rates_are_read() {
        let text = r#"<system version="1"><cpu numaid="0"><pci busid="s0" class="0x060400" link_width="0">
            <pci busid="g0" class="0x030200"><gpu dev="0"><nvlink target="x" count="18" tclass="0x068000"/></gpu></pci>
            <pci busid="n0" class="0x020700"><nic><net name="mlx5_0" speed="400000"/></nic></pci></pci>
            <pci busid="g1" class="0x030200"><gpu dev="1"><nvlink target="x" count="18" tclass="0x068000"/></gpu></pci></cpu>
            <cpu numaid="1"><nic><net name="cxi0" speed="200000000"/></nic></cpu></system>"#;
        let node = parse(text).unwrap();
        assert_eq!(node.paths[0][1], Path::Nvlink(18));
        assert_eq!(node.to_nics, [[Path::Pix, Path::Sys], [Path::Node, Path::Sys]]);
        assert_eq!([node.nics[0].gigabits, node.nics[1].gigabits], [Some(400.0), Some(200.0)]);
    }

    #[test]
    fn truncated_files_and_graphs_are_refused() {
        for bad in [
            "",
            "<system><cpu",
            "<graphs version=\"1\"/>",
            "<system><cpu><pci busid=\"1\"/></cpu></system>",
            "<system/>",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
