//! The head of a hit: the stored field lines, and the lines that each response adds.

use std::hint::black_box;
use std::io::Write;

use criterion::{BenchmarkId, Criterion};
use forebay_http::policy::cache_status::{CacheName, CacheStatus};
use forebay_http::write;

/// Field lines in stored form.
const STORED: &[u8] = b"date: Fri, 02 Jan 2026 10:00:00 GMT\r\n\
    content-type: text/plain\r\n\
    last-modified: Fri, 02 Jan 2026 10:00:00 GMT\r\n\
    etag: \"1024\"\r\n\
    cache-control: public, max-age=86400\r\n";

/// Compares our writer with the formatting of the standard library. Both write the same bytes.
pub(crate) fn benches(criterion: &mut Criterion) {
    let (age, length, ttl) = (1234, 1024, 85_166);
    let mut out = Vec::with_capacity(1024);
    let mut formatted = Vec::with_capacity(1024);
    let name = CacheName::new("forebay").expect("it is printable");
    with_ours(&mut out, &name, age, length, ttl);
    with_format(&mut formatted, age, length, ttl);
    assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&formatted));

    let mut group = criterion.benchmark_group("head");
    group.bench_function(BenchmarkId::from_parameter("forebay"), |bencher| {
        bencher.iter(|| {
            with_ours(&mut out, &name, black_box(age), black_box(length), black_box(ttl));
        });
    });
    group.bench_function(BenchmarkId::from_parameter("std-format"), |bencher| {
        bencher.iter(|| with_format(&mut out, black_box(age), black_box(length), black_box(ttl)));
    });
    group.finish();
}

fn with_ours(out: &mut Vec<u8>, name: &CacheName, age: u64, length: u64, ttl: i64) {
    out.clear();
    write::status_line(out, 200);
    out.extend_from_slice(STORED);
    write::number_field(out, b"age", age);
    write::number_field(out, b"content-length", length);
    out.extend_from_slice(b"cache-status: ");
    CacheStatus::hit(ttl).write(name, out);
    out.extend_from_slice(b"\r\n\r\n");
}

fn with_format(out: &mut Vec<u8>, age: u64, length: u64, ttl: i64) {
    out.clear();
    out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    out.extend_from_slice(STORED);
    // Writing to a vector cannot fail.
    let _ = write!(
        out,
        "age: {age}\r\ncontent-length: {length}\r\ncache-status: forebay; hit; ttl={ttl}\r\n\r\n"
    );
}
