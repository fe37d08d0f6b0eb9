//! The step from a URL to its key: the site, then the bytes by which the store finds the record.
//!
//! There is no other implementation to compare with.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use forebay_server::config::Config;
use forebay_server::url_key;

const SITES: &str = r#"
[[site]]
name = "shop"
names = ["example.org", "*.example.org"]
origin = "http://127.0.0.1:3000"
"#;

/// Measures a host with its exact name, and a host that a wildcard matches.
pub(crate) fn benches(criterion: &mut Criterion) {
    let config = Config::from_toml(SITES, "bench").expect("a valid configuration");
    let mut key = Vec::with_capacity(256);
    let mut group = criterion.benchmark_group("key");
    for (name, url) in [
        ("exact", "http://example.org/static/pictures/heron.svg?size=220"),
        ("wildcard", "http://www.Shop.example.org:8080/static/pictures/heron.svg?size=220"),
    ] {
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| url_key(&config, black_box(url.as_bytes()), &mut key));
        });
        assert!(key.starts_with(b"shop\0http\0org.example"));
    }
    group.finish();
}
