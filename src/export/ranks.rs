//! Which rank is what: the order tp, cp, dp, pp (experts: etp, ep, edp, pp) in which Megatron-LM, and with the same order
//! torch's meshes, number ranks; stages are equal blocks of consecutive ranks.

use super::view::View;

/// Longest table that is written out.
const LISTED: u64 = 65_536;

/// The machines in words, e.g. `64 H100-SXM5-80GB, 8 nodes of 8`.
pub fn machines(view: &View<'_>) -> String {
    let (n, name) = (view.plan.devices, &view.pool.device.name);
    format!("{n} {name}, {} nodes of {}", view.nodes(), view.per_node())
}

/// A table of all ranks: rank, node, device of the node, and the index in each group.
pub fn table(view: &View<'_>) -> String {
    let s = &view.main;
    let ways = |n: u32| u64::from(n).max(1);
    let (tp, cp) = (ways(s.tp), ways(s.cp) * ways(s.ulysses));
    let (etp, ep) = (ways(s.etp), ways(s.ep));
    let stage = view.plan.stage_devices().max(1);
    let mut out = String::from("# innermost first: tp, cp, dp, pp; experts: etp, ep, edp, pp\n");
    out.push_str("rank\tnode\tdevice\tpp\tdp\tcp\ttp\tedp\tep\tetp\n");
    for rank in 0..view.plan.devices.min(LISTED) {
        let (pp, inner) = (rank / stage, rank % stage);
        let (t, c, d) = (inner % tp, inner / tp % cp, inner / tp / cp);
        let (x, e, y) = (inner % etp, inner / etp % ep, inner / etp / ep);
        let (node, device) = (rank / view.per_node(), rank % view.per_node());
        out.push_str(&format!("{rank}\t{node}\t{device}\t{pp}\t{d}\t{c}\t{t}\t{y}\t{e}\t{x}\n"));
    }
    if view.plan.devices > LISTED {
        out.push_str("# and so on\n");
    }
    out
}
