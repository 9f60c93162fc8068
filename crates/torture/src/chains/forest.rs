//! Who waits for whom.

use fastrand::Rng;

/// Nodes of a random forest.
pub(super) const NODES: usize = 12;

/// What waits for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The high task waits for a task that waits for a task, and so on: so many
    /// locks from it to the owner that runs.
    Chain(usize),
    /// Each round has trees of its own, with twelve tasks in them, and the high
    /// task asks for the lock of any.
    Forest,
}

impl Shape {
    pub(super) fn nodes(self) -> usize {
        match self {
            Self::Chain(depth) => depth,
            Self::Forest => NODES,
        }
    }

    /// The forest of a round, the same for whoever asks.
    pub(super) fn forest(self, seed: u64, round: u64) -> Forest {
        match self {
            Self::Chain(depth) => Forest::chain(depth),
            Self::Forest => Forest::random(&mut Rng::with_seed(seed ^ round << 32)),
        }
    }
}

/// Tasks, each with a lock of its own. Some wait for the lock of another that
/// comes before them, the others are the roots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Forest {
    /// For whose lock each waits.
    pub(super) parents: Vec<Option<usize>>,
    /// For whose lock the high task asks.
    pub(super) asked: usize,
}

impl Forest {
    fn chain(depth: usize) -> Self {
        Self {
            parents: (0..depth).map(|node| node.checked_sub(1)).collect(),
            asked: depth - 1,
        }
    }

    fn random(dice: &mut Rng) -> Self {
        let parents = (0..NODES).map(|node| {
            let is_root = node == 0 || dice.u8(0..4) == 0;
            (!is_root).then(|| dice.usize(0..node))
        });
        Self {
            parents: parents.collect(),
            asked: dice.usize(0..NODES),
        }
    }

    /// Who must run before the high task gets what it asks for: the root of the
    /// tree.
    pub(super) fn owner(&self) -> usize {
        let mut node = self.asked;
        while let Some(parent) = self.parents[node] {
            node = parent;
        }
        node
    }

    /// The roots of the other trees.
    pub(super) fn bystanders(&self) -> impl Iterator<Item = usize> {
        let owner = self.owner();
        let roots = (0..).zip(&self.parents);
        let roots = roots.filter(|(_, parent)| parent.is_none());
        roots
            .map(|(node, _)| node)
            .filter(move |&node| node != owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Locks from the high task to the owner.
    fn depth(forest: &Forest) -> usize {
        let parent = |node: &usize| forest.parents[*node];
        std::iter::successors(Some(forest.asked), parent).count()
    }

    #[test]
    fn a_chain_is_as_deep_as_it_says() {
        for chain in 1..=8 {
            let forest = Shape::Chain(chain).forest(1, 1);
            assert_eq!((depth(&forest), forest.owner()), (chain, 0));
            assert_eq!(forest.bystanders().count(), 0);
        }
    }

    #[test]
    fn forests_have_trees_of_all_kinds() {
        let forests: Vec<_> = (0..200).map(|n| Shape::Forest.forest(1, n)).collect();
        for forest in &forests {
            let parents = (0..).zip(&forest.parents);
            assert!(
                parents
                    .clone()
                    .all(|(node, parent)| parent.is_none_or(|p| p < node))
            );
            let roots = parents.filter(|(_, parent)| parent.is_none()).count();
            assert_eq!(forest.bystanders().count(), roots - 1);
            assert!(forest.parents[forest.owner()].is_none());
        }
        let deep = forests.iter().filter(|forest| depth(forest) >= 3).count();
        let alone = forests.iter().filter(|forest| depth(forest) == 1).count();
        assert!(deep > 40 && alone > 10, "{deep} {alone}");
        assert!(
            forests
                .iter()
                .any(|forest| forest.bystanders().count() == 0)
        );
        assert_eq!(Shape::Forest.forest(1, 7), forests[7]);
        assert_ne!(Shape::Forest.forest(2, 7), forests[7]);
    }
}
