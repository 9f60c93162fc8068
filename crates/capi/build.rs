//! What the linker is to write into the shared library.

fn main() {
    let flags = [
        // Programs ask for it by the version that they were built against.
        "-soname,liblockyard.so.0",
        // A thread that has locked calls back when it ends: dlclose must not unload.
        "-z,nodelete",
    ];
    for flags in flags {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{flags}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
