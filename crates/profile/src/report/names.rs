//! What locks are called that are no objects of the program's: after who made them.

use std::collections::{HashMap, HashSet};

use crate::Frame;

/// A name for each lock, of the stacks that made them, innermost frame first; `None` for an
/// empty one.
///
/// It is `of` the function that made the lock. Where that made others too, for other callers, as
/// the constructor of a class of mutexes does, the first caller follows by which the stack is told
/// from those.
pub(super) fn by_makers(created: &[Vec<Frame>]) -> Vec<Option<String>> {
    let stacks: HashSet<&[Frame]> = created.iter().map(Vec::as_slice).collect();
    let mut sharing = HashMap::<&[Frame], u32>::new();
    for stack in stacks {
        for length in 1..=stack.len() {
            *sharing.entry(&stack[..length]).or_default() += 1;
        }
    }
    let name = |stack: &Vec<Frame>| {
        let (maker, callers) = stack.split_first()?;
        let is_told = |callers: &usize| sharing[&stack[..=*callers]] == 1;
        let by = (0..=callers.len()).find(is_told).unwrap_or(callers.len());
        let between = if by > 1 { " < …" } else { "" };
        Some(match by.checked_sub(1) {
            None => format!("of {}", maker.short()),
            Some(caller) => format!(
                "of {}{between} < {}",
                maker.short(),
                callers[caller].short()
            ),
        })
    };
    created.iter().map(name).collect()
}

/// The number of each lock, of its name and address, among those that have that name: in their
/// order, from 1 on. `None` where no other has it.
pub(super) fn numbers(locks: &[(&str, usize)]) -> Vec<Option<usize>> {
    let mut named = HashMap::<_, HashMap<_, _>>::new();
    for &(name, address) in locks {
        let others = named.entry(name).or_default();
        let next = others.len() + 1;
        others.entry(address).or_insert(next);
    }
    let number = |(name, address): &(&str, usize)| {
        let others = &named[name];
        (others.len() > 1).then(|| others[address])
    };
    locks.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_one_name_are_numbered() {
        let locks = [
            ("Pool", 8),
            ("Log", 16),
            ("Pool", 24),
            ("Log", 16),
            ("Pool", 8),
        ];
        let expected = [Some(1), None, Some(2), None, Some(1)];
        assert_eq!(numbers(&locks), expected);
    }

    fn names(stacks: &[&[&str]]) -> Vec<Option<String>> {
        let frame = |function: &&str| Frame {
            function: (*function).into(),
            file: None,
            line: None,
        };
        let stack = |stack: &&[&str]| stack.iter().map(frame).collect();
        by_makers(&stacks.iter().map(stack).collect::<Vec<_>>())
    }

    #[test]
    fn who_made_it_is_enough_where_it_did_so_for_one_caller() {
        let made: &[&str] = &["Queue", "main"];
        let of_queue = Some("of Queue".to_owned());
        assert_eq!(
            names(&[made, made, &[]]),
            [of_queue.clone(), of_queue, None]
        );
    }

    #[test]
    fn a_constructor_of_many_is_told_by_its_callers() {
        let named = names(&[
            &["Mutex", "Cache", "main"],
            &["Mutex", "Pool", "main"],
            &["Mutex", "Base", "Log", "main"],
            &["Mutex", "Base", "Table", "main"],
            &["Mutex", "Base"],
        ]);
        let expected = [
            "of Mutex < Cache",
            "of Mutex < Pool",
            "of Mutex < … < Log",
            "of Mutex < … < Table",
            "of Mutex < Base",
        ];
        assert_eq!(named, expected.map(|name| Some(name.to_owned())));
    }
}
