//! Translations of whole files, compared with stored ones. `UPDATE_GOLDEN=1` writes them.

use std::path::{Path, PathBuf};
use std::{env, fs};

use forebay_import::{Import, ImportError, ImportOptions, nginx, trafficserver, varnish};

/// The folder in stored texts.
const FOLDER: &str = "@DIR@";

#[test]
fn configurations_are_translated() {
    let folder = folder("golden");
    let mut count = 0;
    for path in files(&folder) {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        let prefix = Some(folder.clone());
        let options = ImportOptions { prefix, rules_stem: stem, ..ImportOptions::default() };
        let import = translate(&path, &options).expect("valid syntax");
        let notes: String = import.notes.iter().map(|note| format!("{note}\n")).collect();
        compare(&folder, &path.with_extension("toml"), &import.toml);
        compare(&folder, &path.with_extension("notes"), &notes);
        for file in &import.rule_files {
            compare(&folder, &folder.join(&file.name), &file.text);
        }
        count += 1;
    }
    assert!(count >= 10, "only {count} configurations were found");
}

#[test]
fn broken_files_are_refused_with_their_place() {
    let folder = folder("broken");
    let mut count = 0;
    for path in files(&folder) {
        let error = match translate(&path, &ImportOptions::default()) {
            Err(error) => error,
            Ok(import) => panic!("{} is valid:\n{}", path.display(), import.toml),
        };
        compare(&folder, &path.with_extension("error"), &format!("{error}\n"));
        count += 1;
    }
    assert!(count >= 20, "only {count} broken files were found");
}

#[test]
fn configurations_of_traffic_server_are_translated() {
    let folder = folder("golden").join("trafficserver");
    let mut count = 0;
    for path in folders(&folder) {
        let import = trafficserver(std::slice::from_ref(&path), &ImportOptions::default());
        let import: Import = import.expect("valid syntax");
        let notes: String = import.notes.iter().map(|note| format!("{note}\n")).collect();
        compare(&folder, &path.with_extension("toml"), &import.toml);
        compare(&folder, &path.with_extension("notes"), &notes);
        let files = import.rule_files.iter().map(|file| format!("## {}\n{}", file.name, file.text));
        compare(&folder, &path.with_extension("rules"), &files.collect::<String>());
        count += 1;
    }
    assert!(count >= 5, "only {count} configurations were found");
}

#[test]
fn broken_files_of_traffic_server_are_refused_with_their_place() {
    let folder = folder("broken").join("trafficserver");
    let mut count = 0;
    for path in folders(&folder) {
        let error = match trafficserver(std::slice::from_ref(&path), &ImportOptions::default()) {
            Err(error) => error,
            Ok(import) => panic!("{} is valid:\n{}", path.display(), import.toml),
        };
        compare(&folder, &path.with_extension("error"), &format!("{error}\n"));
        count += 1;
    }
    assert!(count >= 10, "only {count} broken files were found");
}

#[test]
fn requests_that_were_refused_are_served_only_on_request() {
    let path = folder("golden").join("access.conf");
    let options = ImportOptions { drop_access_rules: true, ..ImportOptions::default() };
    let import = nginx(&[path], &options).expect("valid syntax");
    // `deny all` is carried over.
    let count = import.toml.matches("respond = \"403\"").count();
    assert_eq!(count, 1, "{}", import.toml);
}

fn translate(path: &Path, options: &ImportOptions) -> Result<Import, ImportError> {
    let paths = [path.to_owned()];
    match path.extension().is_some_and(|end| end == "vcl") {
        true => varnish(&paths, options),
        false => nginx(&paths, options),
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder exists");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "conf" || end == "vcl"));
    paths.sort();
    paths
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder exists");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.is_dir());
    paths.sort();
    paths
}

fn compare(folder: &Path, stored: &Path, found: &str) {
    let found = found.replace(&folder.display().to_string(), FOLDER);
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(stored, &found).expect("the folder can be written");
    }
    let wanted = fs::read_to_string(stored).unwrap_or_default();
    assert!(wanted == found, "{} differs:\n{found}", stored.display());
}
