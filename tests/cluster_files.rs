//! Clusters: built-in devices against the public tables, shorthands, files, and every kind of bad input.

use espalier::cluster::{Cluster, MOST_DEVICES, devices, file, instances};
use espalier::error::{InputError, Kind};
use espalier::reference;
use espalier::units::{Bytes, BytesPerSecond, Dollars, FlopsPerSecond, Seconds};
use proptest::prelude::*;

const FOUR_DEVICES: &str = r#"(
    name: "four devices",
    pools: [(
        device: (name: "accelerator", half: "150TFLOP/s", memory: "80GB", memory_bandwidth: "2TB/s"),
        devices_per_node: 4,
        links: [
            (name: "bridge", groups: [[0, 1], [2, 3]], bandwidth: "250GB/s", latency: "5us"),
            (name: "slow", bandwidth: "10Gb/s", latency: "10us"),
        ],
    )],
)"#;

/// ACC-HETAUTO: 736 devices of three kinds at three sites.
const THREE_SITES: &str = r#"(
    pools: [
        (name: "a", site: "north", instance: "h100x8", nodes: 32),
        (name: "b", site: "south", instance: "a100x8", nodes: 32),
        (name: "c", site: "west", instance: "h20x8", nodes: 28),
    ],
    between_sites: (bandwidth: "10Gb/s", latency: "20ms"),
)"#;

/// One line of a comma-separated table with quotes.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells
}

fn table(relative: &str) -> Option<Vec<Vec<(String, String)>>> {
    let text = std::fs::read_to_string(reference::path(relative)?).unwrap();
    let mut lines = text.lines();
    let heads = cells(lines.next().unwrap());
    Some(lines.map(|line| heads.iter().cloned().zip(cells(line)).collect()).collect())
}

fn cell<'a>(row: &'a [(String, String)], head: &str) -> &'a str {
    row.iter().find(|(h, _)| h == head).map_or("", |(_, value)| value)
}

fn parse(text: &str) -> Result<Cluster, InputError> {
    file::parse(text, "c.ron").map_err(InputError::from)
}

#[test]
fn every_device_of_the_public_table_is_known_under_all_its_names_or_refused_with_a_reason() {
    let Some(rows) = table("measured/hardware.csv") else { return };
    let number = |text: &str| text.parse::<f64>().ok();
    let mut known = 0;
    for row in &rows {
        let name = cell(row, "name");
        let half = number(cell(row, "bf16_dense_tflops")).or(number(cell(row, "fp16_dense_tflops")));
        let (memory, bandwidth) = (number(cell(row, "mem_gb")), number(cell(row, "hbm_tb_s")));
        let (Some(half), Some(memory), Some(bandwidth)) = (half, memory, bandwidth) else {
            let error = InputError::from(devices::find(name).unwrap_err());
            assert_eq!(error.kind, Kind::Unsupported, "{name}: {error}");
            assert!(error.to_string().contains("published"), "{error}");
            continue;
        };
        known += 1;
        // The table lists the card, the driver each of its two dies.
        let dies = if name == "MI250X" { 2.0 } else { 1.0 };
        for alias in std::iter::once(name).chain(cell(row, "aliases").split(';').filter(|a| !a.is_empty())) {
            let device = devices::find(&alias.to_uppercase()).unwrap_or_else(|e| panic!("{alias}: {e}"));
            assert_eq!(device.peak.half.get() * dies, half * 1e12, "{alias}");
            let fp8 = number(cell(row, "fp8_dense_tflops")).map(|t| FlopsPerSecond(t * 1e12));
            assert_eq!(device.peak.fp8, fp8, "{alias}");
            assert_eq!(device.memory_bandwidth.get() * dies, bandwidth * 1e12, "{alias}");
            // GiB taken for GB makes up to 7.4 % more, reserves of driver and error correction up to 2 % less.
            let ratio = device.memory.get() * dies / (memory * 1e9);
            assert!((0.98..1.08).contains(&ratio), "{alias}: memory {}", device.memory);
            let price = number(cell(row, "price_usd_gpu_hour_ondemand"));
            assert_eq!(devices::price(&device.name).map(|p| p.value), price.map(Dollars), "{alias}");
            device.validate().unwrap();
            assert!(!device.source.is_empty() && device.date.len() == 7);
        }
    }
    assert_eq!(known, devices::names().count());
}

#[test]
fn sustained_plateaus_lie_below_measured_bursts() {
    let Some(rows) = table("measured/hardware.csv") else { return };
    for row in &rows {
        let Ok(burst) = cell(row, "measured_mamf_bf16_tflops").parse::<f64>() else { continue };
        let device = devices::find(cell(row, "name")).unwrap();
        assert!(device.gemm.plateau * device.peak.half.get() <= burst * 1e12, "{}", device.name);
    }
}

#[test]
fn efficiency_curves_pass_through_the_public_operator_tables() {
    let Some(rows) = table("measured/microbench.csv") else { return };
    for (gpu, worst) in [("A100-PCIe-80GB", 0.07), ("B200", 0.20)] {
        let device = devices::find(gpu).unwrap();
        let mut errors: Vec<f64> = rows
            .iter()
            .filter(|row| cell(row, "kind") == "gemm" && cell(row, "gpu") == gpu)
            .map(|row| {
                let number = |head: &str| cell(row, head).parse::<f64>().unwrap();
                let flop = number("derived_time_us") * 1e-6 * number("efficiency") * number("peak_tflops") * 1e12;
                (device.gemm.at(flop) / number("efficiency") - 1.0).abs()
            })
            .collect();
        assert!(errors.len() > 100);
        errors.sort_by(f64::total_cmp);
        let median = errors[errors.len() / 2];
        assert!(median < worst, "{gpu}: median error {median}");
    }
}

#[test]
fn link_constants_reproduce_the_all_reduce_tables() {
    let Some(rows) = table("measured/microbench.csv") else { return };
    for (gpu, machine, worst) in [("A100-SXM", "a100x8", 0.10), ("V100-SXM", "v100x8", 0.12)] {
        let level = instances::pool(machine).unwrap().levels[0].clone();
        let n = 8.0;
        let mut errors: Vec<f64> = rows
            .iter()
            .filter(|row| cell(row, "kind") == "all_reduce" && cell(row, "gpu") == gpu && cell(row, "n_gpus") == "8")
            .map(|row| {
                let size: f64 = cell(row, "size_bytes").parse().unwrap();
                let measured = cell(row, "time_us").parse::<f64>().unwrap() * 1e-6;
                let volume = 2.0 * (n - 1.0) / n * (size + level.half_at.get());
                let time = volume / (level.uplink.get() * level.efficiency) + 2.0 * (n - 1.0) * level.latency.get();
                (time / measured - 1.0).abs()
            })
            .collect();
        assert_eq!(errors.len(), 20);
        errors.sort_by(f64::total_cmp);
        assert!(errors[10] < worst, "{machine}: median error {}", errors[10]);
    }
}

#[test]
fn frameworks_see_their_own_number_of_bytes() {
    let gib = |n: f64| n * (1u64 << 30) as f64;
    for (name, size) in [("h100", 79.18), ("h200", 139.80), ("b200", 178.35), ("a100-40", 39.39), ("gb200", 184.31)] {
        assert_eq!(devices::find(name).unwrap().memory, Bytes(gib(size)), "{name}");
    }
    assert!((devices::find("H100-SXM-80GB").unwrap().memory.get() / 85.0e9 - 1.0).abs() < 1e-3);
}

#[test]
fn shorthands_count_machines() {
    let cluster = instances::cluster("h100x8:8").unwrap();
    cluster.validate().unwrap();
    let pool = &cluster.pools[0];
    assert_eq!((pool.devices, pool.devices_per_node, pool.levels.len()), (64, 8, 2));
    assert_eq!(pool.levels[0].uplink, BytesPerSecond(450e9));
    assert_eq!(pool.levels[1].uplink, BytesPerSecond(400e9));
    assert_eq!(pool.levels[1].per_device, BytesPerSecond(50e9));
    assert_eq!(pool.price.as_ref().unwrap().value, Dollars(2.95));

    let one = instances::pool("H100x8").unwrap();
    assert_eq!((one.devices, one.levels.len()), (8, 1));
    assert_eq!(instances::pool("h100x1").unwrap().levels.len(), 0);
    let half = instances::pool("h100x4:2").unwrap();
    assert_eq!((half.devices, half.levels[1].uplink), (8, BytesPerSecond(200e9)));

    let trays = instances::pool("gb200x4:16").unwrap();
    assert_eq!((trays.devices, trays.devices_per_node, trays.levels.len()), (64, 4, 1));
    let racks = instances::pool("gb200x72:2").unwrap();
    assert_eq!((racks.devices, racks.devices_per_node), (144, 4));
    assert_eq!((racks.levels[0].devices, racks.levels[1].uplink), (72, BytesPerSecond(72.0 * 50e9)));
}

#[test]
fn every_machine_of_the_table_makes_a_valid_cluster_of_one_and_of_many() {
    for name in instances::names() {
        for shorthand in [name.to_owned(), format!("{name}:19")] {
            instances::cluster(&shorthand)
                .unwrap_or_else(|e| panic!("{e}"))
                .validate()
                .unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
    for name in [
        "h100x8 h200x8 a100x8 a100-40x8 b200x8 b300x8 gb200x72 gb200x4 gb300x72 h800x8 a800x8 h20x8 v100x8 mi300x8",
        "mi325x8 mi355x8 l40sx8 p4d p4de p5 p5e p5en p6-b200 a3-high a3-mega a3-ultra a4 a4x ndv4 ndv5 dgx-a100",
        "dgx-h100 dgx-h200 dgx-b200 BM.GPU.H100.8 p5.48xlarge ND96isr_H100_v5 a3-highgpu-8g",
    ]
    .iter()
    .flat_map(|names| names.split(' '))
    {
        instances::pool(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn bad_shorthands_are_refused_with_help() {
    let error = |text: &str| InputError::from(instances::cluster(text).unwrap_err());
    for text in ["h100x8:0", "h100x8:-1", "h100x8:x", "h100x8:", "h100x8:1000000000", "h100x8:99999999999999999999999"]
    {
        assert_eq!(error(text).kind, Kind::InvalidValue, "{text}");
    }
    assert_eq!(error("h10x8:2").help.as_deref(), Some("did you mean `h100x8`?"));
    assert_eq!(error("rubin:1").kind, Kind::Unsupported);
    assert!(error("nothing-like-it").to_string().len() < 200);
    assert!(error("h100:8").help.unwrap().contains("`h100x8:2` is two machines"));
    for text in ["", ":3", "x", "h100x0", "h100x9", "h100x", "\u{1F332}"] {
        assert_eq!(error(text).kind, Kind::UnknownName, "{text}");
    }
}

#[test]
fn the_four_device_question_has_pairs_and_a_slow_link() {
    let cluster = parse(FOUR_DEVICES).unwrap();
    let pool = &cluster.pools[0];
    assert_eq!((pool.devices, pool.levels[0].devices, pool.levels[1].devices), (4, 2, 4));
    assert_eq!(pool.levels[0].uplink, BytesPerSecond(250e9));
    assert_eq!(pool.levels[1].uplink, BytesPerSecond(1.25e9));
    assert_eq!(pool.levels[0].latency, Seconds(5.0 * 1e-6));
    assert_eq!(pool.order, Some(vec![0, 1, 2, 3]));

    let renumbered = parse(&FOUR_DEVICES.replace("[[0, 1], [2, 3]]", "[[0, 2], [1, 3]]")).unwrap();
    let other = &renumbered.pools[0];
    assert_eq!(other.order, Some(vec![0, 2, 1, 3]));
    assert_eq!((&other.levels, &other.device), (&pool.levels, &pool.device));
}

#[test]
fn three_sites_of_unlike_devices_are_one_cluster() {
    let cluster = parse(THREE_SITES).unwrap();
    assert_eq!(cluster.devices(), 736);
    let peaks: Vec<f64> = cluster.pools.iter().map(|p| p.device.peak.half.get() / 1e12).collect();
    assert_eq!(peaks, [989.0, 312.0, 148.0]);
    assert_eq!(cluster.between_sites.as_ref().unwrap().bandwidth, BytesPerSecond(1.25e9));
    let alone = parse(&THREE_SITES.replace("between_sites", "between_pools")).unwrap_err();
    assert_eq!((alone.kind, alone.field.as_deref()), (Kind::MissingField, Some("between_sites")));
}

#[test]
fn json_reads_like_ron_and_what_is_written_reads_back() {
    let json = r#"{"name": "four devices", "pools": [{
        "device": {"name": "accelerator", "half": "150TFLOP/s", "memory": 80e9, "memory_bandwidth": 2000000000000},
        "devices_per_node": 4,
        "links": [
            {"name": "bridge", "groups": [[0, 1], [2, 3]], "bandwidth": "250GB/s", "latency": "5us"},
            {"name": "slow", "bandwidth": "10Gb/s", "latency": "10us"}]}]}"#;
    let cluster = parse(FOUR_DEVICES).unwrap();
    assert_eq!(file::parse(json, "c.json").unwrap(), cluster);
    for cluster in [cluster, parse(THREE_SITES).unwrap(), instances::cluster("p4d:3").unwrap()] {
        let file = file::ClusterFile::from(&cluster);
        let ron = espalier::read::ron_options().to_string_pretty(&file, ron::ser::PrettyConfig::new()).unwrap();
        assert_eq!(parse(&ron).unwrap(), cluster, "{ron}");
        let json = serde_json::to_string(&file).unwrap();
        assert_eq!(file::parse(&json, "c.json").unwrap(), cluster);
    }
}

#[test]
fn every_kind_of_bad_file_is_refused_by_field() {
    let bad = |from: &str, to: &str| {
        assert!(FOUR_DEVICES.contains(from), "{from}");
        parse(&FOUR_DEVICES.replace(from, to)).unwrap_err()
    };
    let whole_links =
        FOUR_DEVICES[FOUR_DEVICES.find("links").unwrap()..FOUR_DEVICES.find("],\n    )").unwrap()].to_owned();
    let cases = [
        ("devices_per_node", "devices_pre_node", Kind::UnknownField, "pools[0].devices_pre_node"),
        ("devices_per_node: 4", "devices_per_node: 0", Kind::InvalidValue, "pools[0].devices_per_node"),
        ("devices_per_node: 4", "devices_per_node: 1000000000", Kind::InvalidValue, "pools[0].devices_per_node"),
        ("devices_per_node: 4", "devices_per_node: \"four\"", Kind::InvalidValue, "pools[0].devices_per_node"),
        ("devices_per_node: 4,", "", Kind::MissingField, "pools[0].devices_per_node"),
        ("devices_per_node: 4", "devices_per_node: 4, nodes: 0", Kind::InvalidValue, "pools[0].nodes"),
        ("devices_per_node: 4", "devices_per_node: 4, nodes: 300000", Kind::InvalidValue, "pools[0].nodes"),
        ("devices_per_node: 4", "devices_per_node: 4, nodes: 1, devices: 5", Kind::Inconsistent, "pools[0].devices"),
        ("devices_per_node: 4", "devices_per_node: 4, devices: 6", Kind::Inconsistent, "pools[0].devices"),
        ("250GB/s", "0GB/s", Kind::InvalidValue, "pools[0].links[0].bandwidth"),
        ("250GB/s", "250 furlongs", Kind::InvalidValue, "pools[0].links[0].bandwidth"),
        ("\"250GB/s\"", "-1.0", Kind::InvalidValue, "pools[0].links[0].bandwidth"),
        ("\"250GB/s\"", "NaN", Kind::InvalidValue, "pools[0].links[0].bandwidth"),
        ("\"250GB/s\"", "inf", Kind::InvalidValue, "pools[0].links[0].bandwidth"),
        ("bandwidth: \"250GB/s\"", "nics: 2", Kind::MissingField, "pools[0].links[0].nic"),
        ("bandwidth: \"250GB/s\"", "nic: \"0Gb/s\"", Kind::InvalidValue, "pools[0].links[0].nic"),
        ("bandwidth: \"250GB/s\"", "nics: 0, nic: \"1Gb/s\"", Kind::InvalidValue, "pools[0].links[0].nics"),
        ("bandwidth: \"250GB/s\",", "", Kind::MissingField, "pools[0].links[0].bandwidth"),
        ("\"250GB/s\"", "\"250GB/s\", nics: 2", Kind::Inconsistent, "pools[0].links[0].bandwidth"),
        ("\"250GB/s\"", "\"250GB/s\", efficiency: 0.0", Kind::InvalidValue, "pools[0].links[0].efficiency"),
        ("\"250GB/s\"", "\"250GB/s\", devices: 3", Kind::Inconsistent, "pools[0].links[0].devices"),
        ("[2, 3]", "[2, 4]", Kind::InvalidValue, "pools[0].order"),
        ("[2, 3]", "[2, 1]", Kind::Inconsistent, "pools[0].order"),
        ("[2, 3]", "[2]", Kind::Inconsistent, "pools[0].links[0].groups"),
        ("[[0, 1], [2, 3]]", "[[0, 1]]", Kind::Inconsistent, "pools[0].links[0].groups"),
        ("[[0, 1], [2, 3]]", "[]", Kind::InvalidValue, "pools[0].links[0].groups"),
        ("[[0, 1], [2, 3]]", "[[0], [1], [2], [3]]", Kind::InvalidValue, "pools[0].links[0].groups"),
        ("groups: [[0, 1], [2, 3]]", "devices: 3", Kind::Inconsistent, "pools[0].links[0].devices"),
        ("name: \"slow\"", "name: \"slow\", devices: 8", Kind::Inconsistent, "pools[0].links[1].devices"),
        (&whole_links, "links: [", Kind::MissingField, "pools[0].links"),
        ("half: \"150TFLOP/s\",", "", Kind::MissingField, "pools[0].device.half"),
        ("half: \"150TFLOP/s\"", "half: 0", Kind::InvalidValue, "pools[0].device.half"),
        ("memory: \"80GB\"", "memory: \"0GB\"", Kind::InvalidValue, "pools[0].device.memory"),
        ("\"80GB\"", "\"80GB\", gemm: (plateau: 1.5, half_at: 0)", Kind::InvalidValue, "pools[0].device.gemm.plateau"),
        ("\"80GB\"", "\"80GB\", gemm: (plateau: 0.5, half: 0)", Kind::UnknownField, "pools[0].device.gemm.half"),
        ("\"80GB\"", "\"80GB\", like: \"h1000\"", Kind::UnknownName, "pools[0].device.like"),
        ("\"80GB\"", "\"80GB\", like: \"rtx 2080\"", Kind::Unsupported, "pools[0].device.like"),
        ("name: \"four devices\"", "nmae: \"four devices\"", Kind::UnknownField, "nmae"),
    ];
    for (from, to, kind, field) in cases {
        let error = bad(from, to);
        assert_eq!((error.kind, error.field.as_deref()), (kind, Some(field)), "{from} -> {to}: {error}");
        assert_eq!(error.file.as_deref(), Some("c.ron"));
    }
}

#[test]
fn bad_pools_are_refused_by_field() {
    let cases = [
        ("(pools: [])", Kind::InvalidValue, "pools"),
        ("()", Kind::MissingField, "pools"),
        ("(pools: [\"h100x9:1\"])", Kind::UnknownName, "pools[0]"),
        ("(pools: [(instance: \"h100x88\")])", Kind::UnknownName, "pools[0].instance"),
        ("(pools: [(instance: \"h100x8:2\", nodes: 3)])", Kind::Inconsistent, "pools[0].instance"),
        ("(pools: [(instance: \"h100x8\", devices_per_node: 6)])", Kind::MissingField, "pools[0].links"),
        ("(pools: [(instance: \"h100x8\", price: -1)])", Kind::InvalidValue, "pools[0].price"),
        ("(pools: [(device: \"h100\")])", Kind::MissingField, "pools[0].devices_per_node"),
        ("(pools: [(devices_per_node: 8)])", Kind::MissingField, "pools[0].device"),
        ("(pools: [(device: \"h1oo\", devices_per_node: 8)])", Kind::UnknownName, "pools[0].device"),
        ("(pools: [\"h100x8\", \"a100x8\"])", Kind::MissingField, "between_pools"),
        (
            "(pools: [(instance: \"a100x8\", name: \"x\"), (instance: \"h100x8\", name: \"x\")])",
            Kind::Inconsistent,
            "pools[1].name",
        ),
        ("(pools: [\"h100x8:100000\", \"a100x8:100000\"], between_pools: (bandwidth: 1))", Kind::InvalidValue, "pools"),
        (
            "(pools: [\"h100x8\", \"a100x8\"], between_pools: (bandwidth: 0))",
            Kind::InvalidValue,
            "between_pools.bandwidth",
        ),
        ("(pools: [3])", Kind::InvalidValue, "pools[0]"),
    ];
    for (text, kind, field) in cases {
        let error = parse(text).unwrap_err();
        assert_eq!((error.kind, error.field.as_deref()), (kind, Some(field)), "{text}: {error}");
    }
    let absent = InputError::from(file::load(std::path::Path::new("no/such.ron")).unwrap_err());
    assert_eq!((absent.kind, absent.file.as_deref()), (Kind::Unreadable, Some("no/such.ron")));
}

#[test]
fn groups_of_a_node_repeat_on_every_node_and_the_largest_pool_is_allowed() {
    let text = FOUR_DEVICES
        .replace("devices_per_node: 4", "devices_per_node: 4, nodes: 2")
        .replace("(name: \"slow\"", "(name: \"board\", bandwidth: \"50GB/s\"), (name: \"slow\"");
    let pool = parse(&text).unwrap().pools.remove(0);
    assert_eq!(pool.order, Some((0..8).collect()));
    assert_eq!(pool.levels.iter().map(|l| l.devices).collect::<Vec<_>>(), [2, 4, 8]);
    let largest = instances::cluster(&format!("h100x8:{}", MOST_DEVICES / 8)).unwrap();
    largest.validate().unwrap();
    assert!(instances::cluster(&format!("h100x8:{}", MOST_DEVICES / 8 + 1)).is_err());
}

proptest! {
    #[test]
    fn garbage_never_panics(text in ".{0,200}", cut in 0usize..600, at in 0usize..600, junk in "[\\PC]{0,6}") {
        let _ = parse(&text);
        let _ = file::parse(&text, "c.json");
        let _ = instances::cluster(&text);
        let _ = devices::find(&text);
        let source: Vec<char> = FOUR_DEVICES.chars().collect();
        let (cut, at) = (cut % source.len(), at % source.len());
        let _ = parse(&source[..cut].iter().collect::<String>());
        let damaged: String = source[..at].iter().copied().chain(junk.chars()).chain(source[at..].iter().copied()).collect();
        if let Ok(cluster) = parse(&damaged) {
            prop_assert!(cluster.validate().is_ok());
        }
    }
}
