//! Which of the files in a folder are Galvatron's six profiles.
//!
//! A folder may be a case (`case.json` beside `inputs/`), a folder with all six files, or one that holds Galvatron's own
//! `configs/` and `hardware_configs/`.

use super::error::GalvatronImportError;
use std::path::{Path, PathBuf};

/// Folders that are looked into, relative to the one given.
const FOLDERS: [&str; 6] =
    ["", "inputs", "configs", "hardware_configs", "profile_hardware/hardware_configs", "profiles"];

/// Every JSON file in reach.
pub(super) struct Shelf {
    folder: PathBuf,
    files: Vec<PathBuf>,
}

impl Shelf {
    /// Lists `folder`.
    pub fn open(folder: &Path) -> Result<Self, GalvatronImportError> {
        if !folder.is_dir() {
            return Err(GalvatronImportError::File {
                file: folder.display().to_string(),
                found: "no such folder".to_owned(),
                expected: "a folder with Galvatron's profile files".to_owned(),
            });
        }
        let mut files = Vec::new();
        for sub in FOLDERS {
            let Ok(entries) = std::fs::read_dir(folder.join(sub)) else { continue };
            files.extend(
                entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.extension().is_some_and(|x| x == "json")),
            );
        }
        files.sort();
        Ok(Self { folder: folder.to_owned(), files })
    }

    /// The file called exactly `name`.
    pub fn named(&self, name: &str) -> Option<&Path> {
        self.files.iter().find(|p| file_name(p) == name).map(PathBuf::as_path)
    }

    /// The file called `name`, or an error that says which ones of its kind (same beginning) there are.
    pub fn required(&self, name: &str, kind: &str) -> Result<&Path, GalvatronImportError> {
        self.named(name).ok_or_else(|| {
            let there: Vec<_> = self.files.iter().map(|p| file_name(p)).filter(|n| n.starts_with(kind)).collect();
            GalvatronImportError::File {
                file: self.folder.join(name).display().to_string(),
                found: "no such file".to_owned(),
                expected: if there.is_empty() {
                    format!("`{name}` there or in {}", FOLDERS[1..5].join(", "))
                } else {
                    format!("`{name}`; there are {}", there.join(", "))
                },
            }
        })
    }

    /// The profile `{kind}_{precision}_{model}[_all].json`; the only one of its kind and precision if `model` matches none.
    pub fn profile(&self, kind: &str, precision: &str, model: &str) -> Result<&Path, GalvatronImportError> {
        for name in [format!("{kind}_{precision}_{model}_all.json"), format!("{kind}_{precision}_{model}.json")] {
            if let Some(path) = self.named(&name) {
                return Ok(path);
            }
        }
        let prefix = format!("{kind}_{precision}_");
        let mut of_kind = self.files.iter().filter(|p| file_name(p).starts_with(&prefix));
        match (of_kind.next(), of_kind.next()) {
            (Some(only), None) => Ok(only),
            _ => self.required(&format!("{kind}_{precision}_{model}_all.json"), kind),
        }
    }
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|n| n.to_str()).unwrap_or("")
}
