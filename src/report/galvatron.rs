//! A plan in Galvatron's terms.

use super::number::power_of_ten;
use super::table::paragraph;
use super::{Align, Style, Table, percent, seconds};
use crate::cost::galvatron::Setting;
use crate::space::galvatron::answer::GalvatronAnswer;
use std::fmt::Write;

const MIB: f64 = 1024.0 * 1024.0;

/// Plan by stage, price, memory, and how good it is proven to be.
pub fn galvatron(answer: &GalvatronAnswer, setting: &Setting, style: Style) -> String {
    let estimate = &answer.estimate;
    let mut out = String::new();
    let name = if setting.model.is_empty() { "model" } else { &setting.model };
    let _ = writeln!(
        out,
        "{}",
        style.title(&format!(
            "{name}, {} layers, on {} devices of {} GB, global batch {}",
            setting.layers(),
            setting.world(),
            setting.memory_gb,
            estimate.global_batch
        ))
    );
    let model = match answer.repairs.as_slice() {
        [] => "Galvatron's cost model".to_owned(),
        repairs => format!("Galvatron's cost model, repaired: {}", repairs.join(", ")),
    };
    out.push_str(&style.faint(&paragraph("  ", &model)));
    let fits = if answer.fits { style.good("fits") } else { style.bad("does not fit") };
    let tokens = estimate.tokens_per_s.map_or(String::new(), |t| format!(", {t:.0} tokens/s"));
    let _ = writeln!(
        out,
        "  iteration {} s, {} samples/s{tokens}; {fits}",
        seconds(estimate.iteration_time_s),
        seconds(estimate.samples_per_s)
    );
    if let Some(bound) = answer.bound {
        let _ = match answer.is_optimal() {
            true => writeln!(out, "  {}: bound {} s, gap 0", style.good("optimal"), seconds(bound.objective_s)),
            false => writeln!(out, "  bound {} s, gap {}", seconds(bound.objective_s), percent(bound.gap)),
        };
    }
    let _ = writeln!(
        out,
        "  {} stages, {} micro-batches, embedding and head {}\n",
        estimate.stages.len(),
        estimate.micro_batches,
        estimate.embedding
    );
    let mut table = Table::new(&[
        ("stage", Align::Right),
        ("layers", Align::Right),
        ("MiB used", Align::Right),
        ("of MiB", Align::Right),
        ("ms/micro-batch", Align::Right),
        ("layers x strategy", Align::Left),
    ]);
    for (i, stage) in estimate.stages.iter().enumerate() {
        let runs: Vec<_> = stage.strategies.iter().map(|r| format!("{}x{}", r.layers, r.strategy)).collect();
        table.row([
            i.to_string(),
            stage.layers.to_string(),
            format!("{:.0}", stage.rounded_memory_bytes / MIB),
            format!("{:.0}", estimate.usable_memory_bytes / MIB),
            format!("{:.2}", stage.micro_batch_s * 1e3),
            runs.join(" "),
        ]);
    }
    out.push_str(&table.render(style));
    if let Some(search) = &answer.search {
        let size =
            answer.space_size_log10.map_or(String::new(), |x| format!(" in a space of {} plans", power_of_ten(x)));
        let line =
            format!("{} search{size}, {} evaluations, {:.3} s", search.backend, search.evaluations, search.wall_s);
        let _ = writeln!(out, "\n{}", style.faint(&paragraph("  ", &line)).trim_end());
    }
    out
}
