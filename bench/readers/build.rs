//! Compiles the calls of Concurrency Kit's lock, if the feature is enabled.

fn main() {
    println!("cargo::rerun-if-changed=ck");
    #[cfg(feature = "ck")]
    cc::Build::new().file("ck/rwlock.c").std("gnu11").opt_level(3).compile("readers_ck");
}
