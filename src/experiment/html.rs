//! One HTML file with everything: no scripts, nothing loaded from elsewhere.

use super::plots::Plot;
use super::results::Results;
use super::tables::{Table, escape_html};
use std::fmt::Write;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;font-size:13px;margin:.5em 0 1.5em;display:block;overflow-x:auto}\
th,td{padding:2px 8px;border-bottom:1px solid #ddd;text-align:left;white-space:nowrap}td.n{text-align:right;\
font-variant-numeric:tabular-nums}svg{max-width:100%;height:auto}.note{color:#555}code{background:#f4f4f4}";

/// What a full campaign has: backends, instances, seeds (`experiments/campaign`, 2026-11).
const FULL: (usize, usize, u64) = (23, 21, 30);

pub(super) fn report(results: &Results, tables: &[Table], plots: &[Plot]) -> String {
    let manifest = &results.manifest;
    let suite = &manifest.suite;
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{0}</title><style>{STYLE}</style></head><body>\n<h1>{0}</h1>\n<p>{1}</p>\n",
        escape_html(&suite.name),
        escape_html(&suite.about)
    );
    let (b, i, s) = (manifest.backends.len(), manifest.instances.len(), suite.seeds.count);
    let _ = writeln!(
        html,
        "<p>{b} backends on {i} instances with {s} seeds, {} distinct evaluations a run: {} runs, recorded by espalier {}. Every \
         run had one thread and a cold cache of its own; runs were interleaved, backends in turn. Small objectives are good.</p>",
        suite.evaluations,
        results.runs.len(),
        manifest.version
    );
    if b < FULL.0 || i < FULL.1 || s < FULL.2 {
        let _ = writeln!(
            html,
            "<p class=\"note\">This is less than a full campaign of {} backends, {} instances and {} seeds: small differences \
             are not to be trusted.</p>",
            FULL.0, FULL.1, FULL.2
        );
    }
    if !manifest.skipped.is_empty() {
        let skipped = escape_html(&manifest.skipped.join(", "));
        let _ = writeln!(html, "<p class=\"note\">Left out, their data was not there: {skipped}.</p>");
    }
    html += "<h2>How to read this</h2>\n<p>A target is a distance to the reference value of an instance. A reference is an \
             optimum (proven), a bound (nothing is below it, perhaps nothing reaches it), or the best known value; these are never \
             mixed. An ECDF shows, after so many evaluations, the share of all pairs of run and target that have been reached: \
             higher and further left is better.</p>\n<h2>Plots</h2>\n";
    let plot = |plot: &Plot| format!("<h3>{}</h3>\n{}", escape_html(&plot.title), plot.svg);
    plots.iter().filter(|p| !p.clocks).for_each(|p| html += &plot(p));
    html += "<h2>Tables</h2>\n";
    let table = |t: &Table| {
        let (title, note) = (escape_html(&t.title), escape_html(&t.note));
        format!("<h3>{title}</h3>\n<p class=\"note\">{note}</p>\n{}", t.html())
    };
    tables.iter().filter(|t| !t.clocks).for_each(|t| html += &table(t));
    html += "<h2>Backends</h2>\n<ul>\n";
    for backend in &manifest.backends {
        let (name, identity) = (escape_html(&backend.name), escape_html(&backend.identity));
        let _ = writeln!(html, "<li>{name}: <code>{identity}</code></li>");
    }
    html += "</ul>\n<section class=\"clocks\">\n<h2>Clocks</h2>\n";
    let machine = &manifest.clocks.machine;
    let _ = writeln!(
        html,
        "<p>Machine: {}, {} cores, load {} when it began{}. Recorded {} s after the beginning of 1970.</p>",
        escape_html(machine.cpu.as_deref().unwrap_or("unknown processor")),
        machine.cores,
        machine.load.map_or("unknown".to_owned(), |load| format!("{:.1}", load[0])),
        if machine.debug_build { "; the program had debug assertions, so clocks are too slow" } else { "" },
        manifest.clocks.began_unix_s
    );
    plots.iter().filter(|p| p.clocks).for_each(|p| html += &plot(p));
    tables.iter().filter(|t| t.clocks).for_each(|t| html += &table(t));
    html + "</section>\n</body></html>\n"
}
