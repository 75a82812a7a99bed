//! What real machines printed: link levels, card affinity and bandwidths, or a clear refusal.

mod cli;

use cli::{folder, run};
use espalier::cluster::probe::{Path, devices, hostlist, nccl, slurm, topo, xml};
use espalier::reference;
use serde_json::Value;

fn sample(name: &str) -> Option<String> {
    Some(std::fs::read_to_string(reference::path(&format!("hardware_samples/{name}"))?).unwrap())
}

#[test]
fn matrices_give_links_and_affinity() {
    // Devices, groups joined by NVLink with the links of each device, the cards nearest to the first and last device.
    type Expected<'a> = (&'a str, u64, &'a [(u64, u64)], &'a [usize], &'a [usize]);
    let expected: [Expected; 7] = [
        ("a100_8gpu_nonic", 8, &[(8, 12)], &[], &[]),
        ("h100_8gpu_nonic", 8, &[(8, 18)], &[], &[]),
        ("h100_mlx5_columns", 8, &[(8, 18)], &[0], &[7]),
        ("h200_a3ultra_8gpu_8nic", 8, &[(8, 18)], &[0, 1], &[6, 7]),
        ("pcie_8gpu_2socket_nonvlink", 8, &[], &[], &[]),
        ("rtx3090_pair_nv2", 2, &[(2, 2)], &[], &[]),
        ("rtx_pair_phb", 2, &[], &[], &[]),
    ];
    for (name, devices, groups, first, last) in expected {
        let Some(text) = sample(&format!("topo_m/{name}.txt")) else { return };
        let node = topo::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(node.devices, devices, "{name}");
        let found: Vec<(u64, u64)> =
            node.nvlink_groups().iter().filter(|(g, _)| g.len() > 1).map(|(g, n)| (g.len() as u64, *n)).collect();
        assert_eq!(found, groups, "{name}");
        let near = node.nearest_nics();
        assert_eq!((near[0].as_slice(), near[devices as usize - 1].as_slice()), (first, last), "{name}");
    }
    let Some(text) = sample("topo_m/pcie_8gpu_2socket_nonvlink.txt") else { return };
    let node = topo::parse(&text).unwrap();
    assert_eq!((node.paths[0][3], node.paths[0][4], node.numa[7]), (Path::Node, Path::Sys, Some(1)));
}

#[test]
fn tables_give_bandwidths() {
    let expected = [
        ("all_reduce_b200_1node", Some(8), 406.30),
        ("all_reduce_dgxc_readme", Some(8), 480.16),
        ("all_reduce_h200_1node_a3ultra", Some(8), 467.47),
        ("alltoall_b200_1node_u32", Some(8), 0.58),
        ("coreweave_readme", None, 386.56),
    ];
    for (name, ranks, plateau) in expected {
        let Some(text) = sample(&format!("nccl_tests/{name}.txt")) else { return };
        let table = nccl::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(table.ranks, ranks, "{name}");
        assert!((table.plateau() / 1e9 - plateau).abs() < 1e-6, "{name}: {}", table.plateau());
    }
    let Some(text) = sample("nccl_tests/alltoall_b200_single_rank.txt") else { return };
    assert!(nccl::parse(&text).unwrap_err().to_string().contains("one rank"));
    // Cut anywhere, a table is read as far as it is whole or refused, never misread.
    let Some(text) = sample("nccl_tests/all_reduce_dgxc_readme.txt") else { return };
    for end in (0..text.len()).step_by(37) {
        if let Ok(table) = nccl::parse(&text[..end]) {
            assert!(table.plateau() <= 480.16e9);
        }
    }
}

#[test]
fn topology_files_give_affinity_or_a_refusal() {
    type Expected<'a> = (&'a str, u64, Path, usize, &'a [usize]);
    let expected: [Expected; 7] = [
        ("aws_p4d", 8, Path::Pix, 4, &[0]),
        ("aws_p4de", 8, Path::Pix, 4, &[0]),
        ("azure_ncv4_a100pcie", 4, Path::Sys, 1, &[0]),
        ("azure_ndv2_v100", 8, Path::Phb, 1, &[0]),
        ("azure_ndv4_a100", 8, Path::Pix, 8, &[0, 1]),
        ("ibm_vpc_h100_dump", 8, Path::Nvlink(18), 8, &[0]),
        ("oci_a100", 8, Path::Pix, 8, &[0, 1]),
    ];
    for (name, devices, path, cards, near) in expected {
        let Some(text) = sample(&format!("nccl_topo_xml/{name}.xml")) else { return };
        let node = xml::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((node.devices, node.nics.len()), (devices, cards), "{name}");
        assert_eq!(node.paths[0][1], path, "{name}");
        assert_eq!(node.nearest_nics()[0], near, "{name}");
        for end in (0..text.len() - 10).step_by(101) {
            assert!(text.get(..end).is_none_or(|t| xml::parse(t).is_err()), "{name} cut at {end}");
        }
    }
    let Some(text) = sample("nccl_topo_xml/ibm_vpc_h100_dump.xml") else { return };
    let node = xml::parse(&text).unwrap();
    assert!(node.nics.iter().all(|n| n.gigabits == Some(200.0)));
    for (name, word) in [("aws_g5_48xl", "class"), ("azure_ncv4_graph", "graphs")] {
        let Some(text) = sample(&format!("nccl_topo_xml/{name}.xml")) else { return };
        assert!(xml::parse(&text).unwrap_err().to_string().contains(word), "{name}");
    }
}

#[test]
fn lists_of_slurm_are_expanded_and_refused() {
    let Some(text) = sample("slurm/hostlists.jsonl") else { return };
    let mut seen = 0;
    for row in text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()) {
        let found = hostlist::expand(row["expr"].as_str().unwrap());
        match row["ok"].as_bool().unwrap() {
            true => assert_eq!(serde_json::to_value(found.unwrap()).unwrap(), row["hosts"], "{row}"),
            false => assert!(found.is_err(), "{row}"),
        }
        seen += 1;
    }
    assert_eq!(seen, 18);
    for row in sample("slurm/tasks_per_node.jsonl").unwrap().lines().map(|l| serde_json::from_str::<Value>(l).unwrap())
    {
        assert_eq!(
            serde_json::to_value(slurm::tasks_per_node(row["expr"].as_str().unwrap()).unwrap()).unwrap(),
            row["expand"]
        );
    }
    let record = &slurm::nodes(&sample("slurm/scontrol_show_node.txt").unwrap()).unwrap()[0];
    assert_eq!((record.devices, record.device.as_deref(), record.memory_bytes), (8, Some("h100"), 2_063_937 << 20));
    let tree = slurm::topology(&sample("slurm/topology.conf").unwrap()).unwrap();
    assert_eq!(tree.iter().map(|s| s.nodes.len()).collect::<Vec<_>>(), [4, 4, 8]);
    let blocks = slurm::topology(&sample("slurm/topology_block.conf").unwrap()).unwrap();
    assert!(blocks.iter().all(|b| b.block && b.nodes.len() == 18));
}

#[test]
fn lists_of_devices_are_read() {
    let Some(text) = sample("other/nvidia_smi_query_gpu.csv") else { return };
    assert_eq!(devices::query(&text).unwrap(), (8, "NVIDIA H200".to_owned()));
    let cards = devices::ibstat(&sample("other/ibstat_synthetic.txt").unwrap()).unwrap();
    assert_eq!(cards[0].gigabits, Some(400.0));
}

#[test]
fn a_cluster_file_is_written_and_plans() {
    let Some(root) = reference::path("hardware_samples") else { return };
    let folder = folder("probe");
    let at = |name: &str| root.join(name).display().to_string();
    let out = folder.join("cluster.ron").display().to_string();
    let ran = run(&[
        "probe",
        "--topo",
        &at("topo_m/h200_a3ultra_8gpu_8nic.txt"),
        "--nccl",
        &at("nccl_tests/all_reduce_h200_1node_a3ultra.txt"),
        "--hostlist",
        "n[1-4]",
        "--nic",
        "400Gb/s",
        "-o",
        &out,
        "--json",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let levels = &ran.json()["levels"];
    assert_eq!((levels[0]["devices"].as_u64(), levels[0]["uplink_bytes_per_s"].as_f64()), (Some(8), Some(450e9)));
    assert_eq!((levels[1]["devices"].as_u64(), levels[1]["uplink_bytes_per_s"].as_f64()), (Some(32), Some(400e9)));
    let planned = run(&["model", "gpt2-xl", "--json"]);
    assert_eq!(planned.code, 0);
    assert!(std::fs::read_to_string(&out).unwrap().contains("H200"));
    // Several nodes, and nothing that says how they are joined.
    let ran = run(&["probe", "--topo", &at("topo_m/h100_8gpu_nonic.txt"), "--device", "H100", "--hostlist", "n[1-2]"]);
    assert_eq!((ran.code, ran.err.contains("--nic")), (2, true), "{}", ran.err);
    let ran = run(&["probe", "--topo", &at("topo_m/h100_8gpu_nonic.txt")]);
    assert_eq!((ran.code, ran.err.contains("--device")), (2, true), "{}", ran.err);
}
