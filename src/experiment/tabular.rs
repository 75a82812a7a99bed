//! Published runs as an instance: the rows of a table that agree on some columns, decisions over others, iteration time as the
//! objective. A run that crashed or ran out of memory is infeasible.

use crate::accuracy::table::{self, Row};
use crate::error::{InputError, Kind};
use crate::search::problems::Measured;
use std::collections::BTreeMap;
use std::path::Path;

/// Columns that give seconds per iteration, the first that is filled counts.
const SECONDS: [&str; 2] = ["iter_time_s", "derived_iter_time_s"];
/// The column that says whether a run failed.
const FAILED: &str = "oom";

/// The instance that the table at `path` makes: rows where `only` says what must stand in which column, `decisions` the columns
/// that are decided, in order.
pub fn read(path: &Path, only: &BTreeMap<String, String>, decisions: &[String]) -> Result<Measured, InputError> {
    of(&table::load(path)?, only, decisions).map_err(|e| e.in_file(path.display()))
}

fn of(rows: &[Row], only: &BTreeMap<String, String>, decisions: &[String]) -> Result<Measured, InputError> {
    let filled = |column: &String| rows.iter().any(|row| row.text(column).is_some());
    if let Some(unknown) = only.keys().chain(decisions).find(|column| !filled(column)) {
        return Err(InputError::new(Kind::UnknownName).at("column").found(unknown).expected("a column of the table"));
    }
    let agrees = |row: &&Row| only.iter().all(|(column, text)| row.or_blank(column) == text);
    let seconds = |row: &Row| SECONDS.iter().find_map(|column| row.number(column)).filter(|s| *s > 0.0);
    let failed = |row: &Row| row.text(FAILED).is_some_and(|text| text != "False");
    let rows: Vec<&Row> = rows.iter().filter(agrees).filter(|row| failed(row) || seconds(row).is_some()).collect();
    if rows.is_empty() {
        let error = InputError::new(Kind::Inconsistent).at("only").found(format!("{only:?}"));
        return Err(error.expected("values that some rows have"));
    }
    let numbered: Vec<BTreeMap<&str, u32>> = decisions.iter().map(|column| numbers(&rows, column)).collect();
    let trials = rows.iter().map(|row| {
        let configuration = decisions.iter().zip(&numbered).map(|(column, of)| of[row.or_blank(column)]);
        (configuration.collect(), seconds(row).filter(|_| !failed(row)))
    });
    Ok(Measured::new(decisions.len(), trials))
}

/// The values of a column in order, numbers by their size.
fn numbers<'r>(rows: &[&'r Row], column: &str) -> BTreeMap<&'r str, u32> {
    let mut values: Vec<&str> = rows.iter().map(|row| row.or_blank(column)).collect();
    values.sort_unstable_by(|a, b| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(x), Ok(y)) => x.total_cmp(&y).then(a.cmp(b)),
        _ => a.cmp(b),
    });
    values.dedup();
    values.into_iter().zip(0..).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_agree_become_configurations_and_crashes_are_kept() {
        let text = "model,tp,pp,iter_time_s,oom\na,2,4,1.5,\na,16,1,,crashed\na,2,1,2.5,False\nb,2,1,9,\na,4,1,,\n";
        let rows = table::parse(text).unwrap();
        let runs = |model: &str| {
            let only = [("model".to_owned(), model.to_owned())].into();
            of(&rows, &only, &["tp", "pp"].map(str::to_owned))
        };
        assert_eq!(runs("a").unwrap().len(), 3);
        assert_eq!(runs("b").unwrap().len(), 1);
        assert!(runs("c").is_err());
        let unknown = of(&rows, &BTreeMap::new(), &["tp", "pq"].map(str::to_owned)).err().unwrap().to_string();
        assert!(unknown.contains("found `pq`"), "{unknown}");
        let seen: Vec<&Row> = rows.iter().collect();
        assert_eq!(numbers(&seen, "tp"), [("2", 0), ("4", 1), ("16", 2)].into());
    }
}
