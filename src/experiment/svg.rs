//! Line charts as SVG.

use super::tables::escape_html;
use std::fmt::Write;

/// A named line.
pub(super) struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// A chart of steps over a logarithmic axis.
pub(super) struct Chart {
    pub title: String,
    pub x: String,
    pub y: String,
    /// Ends of the logarithmic axis.
    pub from: f64,
    pub to: f64,
    pub lines: Vec<Line>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;
/// Okabe and Ito's palette for all kinds of colour vision (jfly.uni-koeln.de/color, 2008), used again with dashes.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const DASHES: [&str; 4] = ["", "6 3", "2 2", "8 3 2 3"];

pub(super) fn stroke(number: usize) -> String {
    let dash = DASHES[number / COLOURS.len() % DASHES.len()];
    format!("stroke=\"{}\" stroke-dasharray=\"{dash}\"", COLOURS[number % COLOURS.len()])
}

impl Chart {
    /// The chart; y runs from 0 to 1.
    pub fn render(&self) -> String {
        let (low, high) = (self.from.ln(), self.to.max(self.from * 1.01).ln());
        let x = |v: f64| LEFT + (v.max(self.from).ln() - low) / (high - low) * (WIDTH - LEFT - RIGHT);
        let y = |v: f64| HEIGHT - BOTTOM - v.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM);
        let mut svg = open(WIDTH, HEIGHT, &self.title);
        for tenth in [0.0, 0.2, 0.4, 0.6, 0.8, 1.0] {
            let at = y(tenth);
            let end = WIDTH - RIGHT;
            let _ = write!(svg, "<line x1=\"{LEFT}\" x2=\"{end}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>");
            text(&mut svg, LEFT - 6.0, at + 4.0, "end", &format!("{tenth:.1}"));
        }
        let mut tick = 10f64.powf(self.from.log10().ceil());
        while tick <= self.to * 1.0001 {
            let at = x(tick);
            let foot = HEIGHT - BOTTOM;
            let _ = write!(svg, "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{foot}\" stroke=\"#eee\"/>");
            let label = if (0.001..1e5).contains(&tick) { format!("{tick}") } else { format!("{tick:e}") };
            text(&mut svg, at, foot + 16.0, "middle", &label);
            tick *= 10.0;
        }
        text(&mut svg, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 10.0, "middle", &self.x);
        text(&mut svg, LEFT, TOP - 8.0, "start", &self.y);
        for (number, line) in self.lines.iter().enumerate() {
            let mut path = format!("M{:.1} {:.1}", x(self.from), y(0.0));
            for (at, share) in &line.points {
                let _ = write!(path, "H{:.1}V{:.1}", x(*at), y(*share));
            }
            let _ = write!(path, "H{:.1}", x(self.to));
            let stroke = stroke(number);
            let _ = write!(svg, "<path d=\"{path}\" fill=\"none\" stroke-width=\"1.8\" {stroke}/>");
            let at = TOP + 14.0 * number as f64;
            let (a, b) = (WIDTH - RIGHT + 8.0, WIDTH - RIGHT + 34.0);
            let _ = write!(svg, "<line x1=\"{a}\" x2=\"{b}\" y1=\"{at}\" y2=\"{at}\" stroke-width=\"2\" {stroke}/>");
            text(&mut svg, b + 5.0, at + 4.0, "start", &line.name);
        }
        svg + "</svg>\n"
    }
}

pub(super) fn open(width: f64, height: f64, title: &str) -> String {
    let title = escape_html(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\" role=\"img\"><title>{title}</title>\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    )
}

pub(super) fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = escape_html(text);
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}
