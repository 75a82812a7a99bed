//! Predictions against measurements as one page that needs no other file.

use super::percent;
use crate::accuracy::{Comparison, Set};
use std::fmt::Write;

/// What every page of ours holds.
pub const PAGE_MARK: &str = "<meta name=\"generator\" content=\"espalier\">";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The page: figures by set, and a point for every row, measured across and predicted up, both logarithmic.
pub fn accuracy_html(sets: &[Set], comparison: &Comparison) -> String {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"generator\" content=\"espalier\"><title>Accuracy</title><style>\
         body{font:14px sans-serif;margin:2em}td,th{padding:2px 10px;text-align:right}\
         td:first-child{text-align:left}</style></head><body>\n<h1>Predicted against measured</h1>\n<table>\n\
         <tr><th>set</th><th>rows</th><th>mean</th><th>median</th><th>95 %</th><th>worst</th><th>bias</th>\
         <th>tau</th><th>noise</th><th>tau of noise</th><th>inside p10-p90</th><th>left out</th></tr>\n",
    );
    for set in sets {
        let e = &set.errors;
        let optional = |x: Option<f64>| x.map(|x| format!("{x:.2}")).unwrap_or_default();
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&set.name),
            e.rows,
            percent(e.mape),
            percent(e.median),
            percent(e.p95),
            percent(e.worst),
            percent(e.bias),
            optional(set.kendall_tau),
            set.noise.map(|n| percent(n.mape)).unwrap_or_default(),
            optional(set.noise.and_then(|n| n.kendall_tau)),
            optional(set.coverage),
            set.left_out.values().sum::<usize>()
        );
    }
    page.push_str("</table>\n");
    page.push_str(&points(comparison));
    page.push_str("</body></html>\n");
    page
}

fn points(comparison: &Comparison) -> String {
    const SIDE: f64 = 600.0;
    let values = comparison.rows.iter().flat_map(|r| [r.predicted, r.measured]).map(f64::ln);
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
    if comparison.rows.is_empty() || high <= low {
        return String::new();
    }
    let at = |x: f64| (x.ln() - low) / (high - low) * SIDE;
    let mut svg = format!(
        "<svg width=\"{SIDE}\" height=\"{SIDE}\" style=\"border:1px solid #888\">\
         <line x1=\"0\" y1=\"{SIDE}\" x2=\"{SIDE}\" y2=\"0\" stroke=\"#888\"/>\n"
    );
    for r in &comparison.rows {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2\" fill=\"#36c\" fill-opacity=\"0.4\"><title>{} {}</title></circle>",
            at(r.measured),
            SIDE - at(r.predicted),
            escaped(&r.source),
            escaped(&r.id)
        );
    }
    svg.push_str("</svg>\n");
    svg
}
