//! A lock's own node for each task.

use std::sync::OnceLock;

use lockyard_core::TaskId;

use crate::Line;

/// Chunk `k` holds the nodes of the tasks `2^k` to `2^(k+1) - 1`.
const CHUNKS: usize = TaskId::MAX.ilog2() as usize + 1;

/// A node for each task, made when it is first asked for, a chunk at a time.
/// On a line of its own, which is only read once the chunks are there.
#[repr(align(128))]
pub(super) struct PerTask<N> {
    chunks: [OnceLock<Box<[Line<N>]>>; CHUNKS],
}

impl<N: Default> PerTask<N> {
    pub(super) const fn new() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS],
        }
    }

    /// The node of `task`.
    #[inline]
    pub(super) fn of(&self, task: TaskId) -> &N {
        let number = task.number();
        let chunk = number.ilog2();
        let first = 1 << chunk;
        let nodes = self.chunks[chunk as usize]
            .get_or_init(|| (0..first).map(|_| Line(N::default())).collect());
        &nodes[(number - first) as usize].0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_task_has_one_node_of_its_own() {
        let nodes = PerTask::<u32>::new();
        let node = |number| &raw const *nodes.of(TaskId::new(number).expect("not 0"));
        let all: HashSet<_> = (1..=100).map(node).collect();
        assert_eq!(all.len(), 100);
        assert!((1..=100).all(|number| all.contains(&node(number))));
    }

    #[test]
    fn the_largest_task_has_a_chunk() {
        assert_eq!(TaskId::MAX.ilog2() as usize, CHUNKS - 1);
    }
}
