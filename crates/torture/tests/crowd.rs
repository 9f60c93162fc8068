//! A crowd that is interrupted, alone in its process: all workloads are.

use lockyard_torture::{crowd, interrupt};

#[test]
fn an_interrupt_ends_a_crowd() {
    interrupt();
    assert!(crowd::run::<32, 4096>(1_000_000).is_none());
}
