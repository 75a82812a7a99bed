//! What a model is.

use super::layers::strategy;
use super::number::gigabytes;
use super::plan::notes;
use super::{Align, Style, Table, grouped, percent, short_count};
use crate::space::profile::Profile;
use crate::units::Flops;
use std::fmt::Write;

/// The whole report.
pub fn model(profile: &Profile, style: Style) -> String {
    let p = profile;
    let mut out = format!("{} (family `{}`)\n", style.title(&p.name), p.family);
    let share = |n: u64| percent(n as f64 / p.parameters_total.max(1) as f64);
    let exact = |n: u64| format!("{} ({})", short_count(n as f64), grouped(n as f64));
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    table.row(["parameters".into(), exact(p.parameters_total)]);
    if p.parameters_active != p.parameters_total {
        let text = format!("{}, {} of all", exact(p.parameters_active), share(p.parameters_active));
        table.row(["active per token".into(), text]);
    }
    for (name, n) in [
        ("embedding", p.parameters_embedding),
        ("head", p.parameters_head),
        ("vision tower", p.parameters_vision),
        ("MTP, on top", p.parameters_mtp),
    ] {
        if n > 0 {
            table.row([name.into(), format!("{}, {}", exact(n), share(n))]);
        }
    }
    if p.parameters_head == 0 {
        table.row(["head".into(), "tied to the embedding".into()]);
    }
    let limit = p.max_positions.map_or(String::new(), |n| format!(", sequences up to {}", grouped(n as f64)));
    table.row(["layers".into(), format!("{}{limit}", p.layers)]);
    table.row([
        "FLOPs per token".into(),
        format!(
            "{} counting causal attention, {} counting full attention (forward and backward, sequence {})",
            Flops(p.flops_per_token),
            Flops(p.flops_per_token_full_attention),
            grouped(p.sequence as f64)
        ),
    ]);
    table
        .row(["states".into(), format!("{} bytes per parameter before they are sharded", p.state_bytes_per_parameter)]);
    out.push_str(&table.render(style));

    let _ = writeln!(out, "\n{}", style.title("Layer classes"));
    let mut table = Table::new(&[
        ("class", Align::Left),
        ("layers", Align::Right),
        ("hidden", Align::Right),
        ("parameters each", Align::Right),
        ("active", Align::Right),
        ("forward FLOPs per token", Align::Right),
    ]);
    for c in &p.layer_classes {
        table.row([
            c.name.clone(),
            c.layers.to_string(),
            grouped(c.hidden as f64),
            grouped(c.parameters as f64),
            grouped(c.parameters_active as f64),
            Flops(c.forward_flops_per_token).to_string(),
        ]);
    }
    out.push_str(&table.render(style));

    let title = format!(
        "Memory of one device, GB: one stage, one sequence of {} per rank in flight",
        grouped(p.sequence as f64)
    );
    let _ = writeln!(out, "\n{}", style.title(&title));
    let mut table = Table::new(&[
        ("devices", Align::Right),
        ("strategy", Align::Left),
        ("states", Align::Right),
        ("activations", Align::Right),
        ("selective recompute", Align::Right),
        ("full recompute", Align::Right),
    ]);
    for m in &p.memory {
        table.row([
            m.devices.to_string(),
            strategy(&m.strategy, m.devices),
            gigabytes(m.states_bytes),
            gigabytes(m.activations_bytes),
            gigabytes(m.activations_selective_bytes),
            gigabytes(m.activations_full_bytes),
        ]);
    }
    out.push_str(&table.render(style));
    notes(&mut out, &p.notes, style);
    out
}
