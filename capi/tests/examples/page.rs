//! The C and Python code of `docs/ordmap.md` works as shown.

use std::fs;
use std::process::Command;

use forebay_ordmap::{MapOptions, OrdConfig, OrdRegion};

use crate::build::{Language, compile, crate_dir, languages, library_dir};

const PAGE: &str = include_str!("../../../docs/ordmap.md");

/// Returns the page's code block in a language.
fn block(language: &str) -> &'static str {
    let (_, after) = PAGE.split_once(&format!("\n```{language}\n")).unwrap();
    after.split_once("\n```").unwrap().0
}

#[test]
fn the_page_shows_programs_that_work() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("own/region");
    let region = OrdRegion::open_or_create(&path, &OrdConfig::with_bytes(8 << 20)).unwrap();
    let participant = region.join().unwrap();
    let towns = participant.map("towns", &MapOptions::default()).unwrap();
    towns.insert(b"london", b"Thames").unwrap();
    towns.insert(b"lyon", b"?").unwrap();
    for language in languages() {
        let name = format!("{language:?}").to_lowercase();
        let program = block(&name).replace("/dev/shm/towns/region", path.to_str().unwrap());
        let source = dir.path().join(format!("page.{name}"));
        fs::write(&source, program).unwrap();
        let mut command = match &language {
            Language::C(_) => {
                let library = library_dir();
                let run_path = format!("-Wl,-rpath,{}", library.display());
                let link = ["-L".as_ref(), library.as_os_str(), "-lforebay_capi".as_ref()];
                let made = compile("page", &source, |cc| cc.args(link).arg(run_path)).unwrap();
                Command::new(made)
            }
            Language::Python(python) => {
                let mut command = Command::new(python);
                command.env("FOREBAY_LIBRARY", library_dir().join("libforebay_capi.so"));
                command.env("PYTHONPATH", crate_dir().join("examples")).arg("-B").arg(&source);
                command
            }
        };
        let ran = command.env_remove("LD_LIBRARY_PATH").output().unwrap();
        let output = String::from_utf8_lossy(&ran.stdout);
        let errors = String::from_utf8_lossy(&ran.stderr);
        let river = String::from_utf8(towns.get(b"lyon").unwrap().unwrap()).unwrap();
        let expected = format!("london on the Thames\nlyon on the {river}\n");
        assert_eq!(output, expected, "{language:?}: {errors}");
        assert!(matches!(language, Language::Python(_)) || river == "Rhone");
    }
}
