//! Compiles the runtime.

fn main() {
    println!("cargo::rerun-if-changed=runtime");
    cc::Build::new()
        .files(["runtime/calls.c", "runtime/table.c"])
        .std("c11")
        .extra_warnings(true)
        .opt_level(2)
        // On x86-64, this allows a 16-byte compare-and-swap without a library.
        .flag_if_supported("-mcx16")
        .compile("conflict_runtime");
}
