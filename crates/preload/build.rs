//! What the linker is to write into the shared library.

fn main() {
    // A thread that has locked calls back when it ends: dlclose must not unload.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
