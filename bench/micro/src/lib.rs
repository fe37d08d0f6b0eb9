//! Empty: the benchmarks of this package are in `benches`.
