//! What a word is known by.

/// What a word is known by, in all mappings of it. Two keys are the same word's if
/// all their fields are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    kind: u32,
    object: u64,
    place: u64,
}

const PRIVATE: u32 = 0;
const SHARED: u32 = 1;
const ANONYMOUS: u32 = 2;

impl Key {
    /// That of a word in one address space, which nothing else maps.
    pub const fn private(space: u64, address: u64) -> Self {
        Self {
            kind: PRIVATE,
            object: space,
            place: address,
        }
    }

    /// That of a word so many bytes into an object that several address spaces may
    /// map. The object's number must not be reused.
    pub const fn shared(object: u64, offset: u64) -> Self {
        Self {
            kind: SHARED,
            object,
            place: offset,
        }
    }

    /// That of a word of an anonymous page, for whom takes it for one that others may
    /// map: it is not [`Self::private`]'s.
    pub const fn anonymous(space: u64, address: u64) -> Self {
        Self {
            kind: ANONYMOUS,
            object: space,
            place: address,
        }
    }

    /// Of every field: what it left out, keys that differ only in that would collide.
    ///
    /// Each step is Fibonacci hashing (Knuth, volume 3, 6.4): neighbouring places are
    /// far apart in the product's upper half, which the rotation brings down.
    #[inline(always)]
    pub(super) fn hash(&self) -> u32 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 / golden ratio, odd
        let fields = [u64::from(self.kind), self.object, self.place];
        let step = |hash: u64, field: u64| (hash ^ field).wrapping_mul(GOLDEN).rotate_left(32);
        fields.into_iter().fold(0, step) as u32
    }

    /// How many words a key is.
    pub(super) const WORDS: usize = 5;

    /// As words, for a node.
    pub(super) const fn words(&self) -> [u32; Self::WORDS] {
        let Self {
            kind,
            object,
            place,
        } = *self;
        [
            kind,
            (object >> 32) as u32,
            object as u32,
            (place >> 32) as u32,
            place as u32,
        ]
    }

    /// The key of these words.
    pub(super) const fn from_words(words: [u32; Self::WORDS]) -> Self {
        let [kind, object_high, object, place_high, place] = words;
        Self {
            kind,
            object: (object_high as u64) << 32 | object as u64,
            place: (place_high as u64) << 32 | place as u64,
        }
    }
}
