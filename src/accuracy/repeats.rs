//! What no price can tell apart: runs of one question that were priced alike, and how far their measurements lie from each
//! other. Whatever single number is predicted for them errs by some of that.

use super::compare::{Compared, tau_by_question};
use super::statistics::quantile;
use serde::Serialize;
use std::collections::BTreeMap;

/// The noise floor of a set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Repeats {
    /// Rows whose price is that of another row of their question.
    pub rows: usize,
    /// Mean size of the errors that the best single number for each price makes on them: the least there can be.
    pub mape: f64,
    /// [`super::Set::kendall_tau`] of all rows if every price's median were predicted.
    pub kendall_tau: Option<f64>,
}

/// Of `rows`; `None` where no two are priced alike.
pub(super) fn repeats(rows: &[&Compared]) -> Option<Repeats> {
    let mut alike: BTreeMap<(&str, u64), Vec<f64>> = BTreeMap::new();
    for row in rows {
        alike.entry((&row.question, row.predicted.to_bits())).or_default().push(row.measured);
    }
    alike.values_mut().for_each(|measured| measured.sort_by(f64::total_cmp));
    let repeated: Vec<&Vec<f64>> = alike.values().filter(|measured| measured.len() > 1).collect();
    let count: usize = repeated.iter().map(|measured| measured.len()).sum();
    if count == 0 {
        return None;
    }
    // A sum of sizes that are linear between measurements is least at one of them.
    let errors = |measured: &Vec<f64>| {
        let of = |p: &f64| measured.iter().map(|m| (p / m - 1.0).abs()).sum::<f64>();
        measured.iter().map(of).fold(f64::INFINITY, f64::min)
    };
    let medians = rows.iter().map(|row| {
        let median = quantile(&alike[&(row.question.as_str(), row.predicted.to_bits())], 0.5);
        (row.question.as_str(), (median, row.measured))
    });
    Some(Repeats {
        rows: count,
        mape: repeated.iter().map(|measured| errors(measured)).sum::<f64>() / count as f64,
        kendall_tau: tau_by_question(medians),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(question: &str, predicted: f64, measured: f64) -> Compared {
        Compared {
            id: String::new(),
            source: String::new(),
            gpu: String::new(),
            framework: "",
            question: question.to_owned(),
            predicted,
            measured,
            interval: [0.0, 1.0],
            fullness: 0.5,
            parts: BTreeMap::new(),
        }
    }

    #[test]
    fn rows_priced_alike_err_by_what_no_number_for_them_avoids() {
        let rows = [row("a", 1.0, 2.0), row("a", 1.0, 4.0), row("a", 3.0, 8.0), row("b", 1.0, 9.0)];
        let found = repeats(&rows.iter().collect::<Vec<_>>()).unwrap();
        // Of 2 and 4, predicting 2 errs by 0 and 1/2; 3 would by 1/2 and 1/4, 4 by 1 and 0. The pair is tied, the two others agree.
        assert_eq!((found.rows, found.mape), (2, 0.25));
        let tau = found.kendall_tau.unwrap();
        assert!((tau - 2.0 / 6f64.sqrt()).abs() < 1e-12, "{tau}");
        assert_eq!(repeats(&rows[2..].iter().collect::<Vec<_>>()), None);
    }
}
