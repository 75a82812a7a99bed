//! A schedule as text: a line per device, time from left to right, a column per quantum of time.

use crate::pipeline::simulate::Run;

/// Columns at most; a longer schedule gets a coarser quantum.
const MOST_COLUMNS: usize = 400;

/// The grid. One column is the shortest step (or more, if there would be too many columns); a step stands where it
/// starts, `-` continues it, `.` is idle.
pub fn grid(run: &Run) -> String {
    let durations = run.timeline.iter().flatten().map(|timed| timed.end - timed.start).filter(|d| *d > 0.0);
    let shortest = durations.fold(f64::INFINITY, f64::min);
    let quantum = shortest.min(run.makespan).max(run.makespan / MOST_COLUMNS as f64);
    let column = |time: f64| if quantum > 0.0 { (time / quantum + 1e-6).floor() as usize } else { 0 };
    let columns = column(run.makespan - quantum * 1e-3) + 1;
    let labels = run.timeline.iter().flatten().map(|timed| timed.step.to_string().len());
    let width = labels.max().unwrap_or(1) + 1;
    let mut text = String::new();
    for (device, timeline) in run.timeline.iter().enumerate() {
        let mut cells = vec![String::from("."); columns];
        for timed in timeline {
            let (from, to) = (column(timed.start), column(timed.end - quantum * 1e-3));
            for cell in cells.iter_mut().take(to + 1).skip(from) {
                *cell = "-".to_owned();
            }
            // Two steps in one column of a coarse grid: the later one is shown.
            if let Some(cell) = cells.get_mut(from) {
                *cell = timed.step.to_string();
            }
        }
        let line: String = cells.iter().map(|cell| format!("{cell:<width$}")).collect();
        text.push_str(&format!("{device:>4}  {}\n", line.trim_end()));
    }
    text
}
