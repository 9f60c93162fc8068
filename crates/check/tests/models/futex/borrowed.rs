//! Waits for more words than a task has nodes: the last one's is in a record that the task
//! has borrowed.

use super::*;

/// As many as a task has nodes.
const OWN: usize = 8;

/// The task waits for this word, behind others that nobody wakes and whose bucket is its
/// own. Returns whether it was woken.
fn wait_for_nine(shared: &Shared, place: &Place, deadline: Option<Deadline>) -> bool {
    let words = [&shared.a, &shared.b].map(|place| shared.futex.slot(&place.key));
    let mut free = (0..SLOTS).filter(|slot| !words.contains(slot));
    let mine = free.nth(Check::me().number() as usize - 1);
    let mut others = (1..).map(|n| Key::private(2, n * 4));
    let other = others.find(|other| Some(shared.futex.slot(other)) == mine);
    let other = other.expect("there are many");
    let key = |index| if index < OWN { other } else { place.key };
    let unchanged = |index| index < OWN || place.word.load(Acquire) == 0;
    let any = (shared.futex).wait_any(OWN + 1, key, Waiter::ANY, unchanged, deadline);
    match any {
        WaitedAny::Woken(words) => assert_eq!(words, 1 << OWN),
        WaitedAny::Changed(index) => assert_eq!(index, OWN),
        WaitedAny::TimedOut => return false,
    }
    assert_eq!(place.payload.get(), 1);
    matches!(any, WaitedAny::Woken(_))
}

fn change_and_wake(shared: &Shared, place: &Place) -> u32 {
    shared.change(place);
    shared.wake(place, 1)
}

/// One waits for nine words, one changes the ninth and wakes.
fn the_ninth(deadline: Option<Deadline>) {
    let shared = apart();
    let waker = Rc::clone(&shared);
    let (woken, woke) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let (was, did) = (Rc::clone(&woken), Rc::clone(&woke));
    spawn(move || was.set(wait_for_nine(&shared, &shared.a, deadline)));
    spawn(move || did.set(change_and_wake(&waker, &waker.a)));
    afterwards(move || {
        let told = u32::from(woken.get());
        assert_eq!(woke.get(), told, "who is woken is told");
    });
}

#[test]
fn no_lost_wake_up() {
    explore(
        "futex, nine words",
        &Explorer::new(),
        &[Event::Parked],
        || {
            the_ninth(None);
        },
    );
}

#[test]
fn wake_against_timeout() {
    let events = [Event::Cancelled, Event::CancelGranted];
    let explorer = Explorer::new();
    explore("futex, nine words, deadline", &explorer, &events, || {
        the_ninth(Some(DEADLINE));
    });
}

/// Two wait for nine words each, with a record each that the other may have had before: the
/// waker of the one may still look whom it has to unpark when the other has its record.
#[test]
fn a_record_has_one_borrower() {
    let explorer = Explorer::new().pct(1, 3, 2_000);
    let events = [Event::Parked];
    explore("futex, nine words twice", &explorer, &events, || {
        let shared = apart();
        let [first, second] = [Rc::clone(&shared), Rc::clone(&shared)];
        spawn(move || {
            wait_for_nine(&first, &first.a, None);
        });
        spawn(move || {
            wait_for_nine(&second, &second.b, None);
        });
        spawn(move || {
            change_and_wake(&shared, &shared.a);
            change_and_wake(&shared, &shared.b);
        });
    });
}
