//! Models of the hub import to exactly the published numbers of parameters.

use espalier::model::import::from_path;
use espalier::reference;

struct Row {
    file: String,
    total: u64,
    active: u64,
    vision: Option<u64>,
}

/// `params.csv` by its header; fields may be quoted.
fn rows() -> Option<Vec<Row>> {
    let text = std::fs::read_to_string(reference::path("hf/params.csv")?).unwrap();
    let mut lines = text.lines();
    let header = split(lines.next().unwrap());
    let column = |name: &str| header.iter().position(|h| h == name).unwrap();
    let (file, total) = (column("file"), column("exact_total_hf_class"));
    let (active, vision) = (column("exact_active_incl_embeddings"), column("of_which_vision"));
    let rows = lines.map(split).map(|r| Row {
        file: r[file].clone(),
        total: r[total].parse().unwrap(),
        active: r[active].parse().unwrap(),
        vision: r[vision].parse().ok(),
    });
    Some(rows.collect())
}

fn split(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells
}

#[test]
fn every_reference_config_has_exactly_its_published_parameters() {
    let Some(rows) = rows() else { return };
    let mut wrong = Vec::new();
    for row in &rows {
        let path = reference::path(&format!("hf/configs/{}", row.file)).unwrap();
        match from_path(&path, None) {
            Err(e) => wrong.push(format!("{}: {e}", row.file)),
            Ok(model) => {
                let found = (model.parameters_total(), model.parameters_active());
                if found != (row.total, row.active) {
                    wrong.push(format!("{}: {found:?}, expected {:?}", row.file, (row.total, row.active)));
                }
                if let Some(vision) = row.vision
                    && vision != model.parameters_vision()
                {
                    wrong.push(format!("{}: vision {}, expected {vision}", row.file, model.parameters_vision()));
                }
                eprintln!("{} {:?}", row.file, model.notes);
            }
        }
    }
    assert_eq!(rows.len(), 54);
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
