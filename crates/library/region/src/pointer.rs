//! Pointers within a pool, and what may lie there.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A kind of pool: what its root object is. Two kinds are two types, and a pointer carries its pool's kind,
/// so one that leads into a pool of another kind does not compile.
///
/// ```compile_fail
/// struct Books;
/// struct Tapes;
/// impl region::Layout for Books { const NAME: &'static str = "books"; type Root = region::Ptr<u64, Tapes>; }
/// impl region::Layout for Tapes { const NAME: &'static str = "tapes"; type Root = u64; }
/// ```
pub trait Layout: Sized + 'static {
    /// Its name, at most 64 bytes, which stands in the header: a pool of another name is not opened. Change
    /// it when the types in the pool change.
    const NAME: &'static str;
    /// The object that everything else in the pool is reached from. It begins as zeros.
    type Root: Persistent<Self>;
}

/// What may lie in a pool of layout `L`: plain bytes, any of which are a value, and pointers into the same
/// pool. No reference, no `Box`, no pointer into another pool. Structs get it by
/// [`persistent!`](crate::persistent).
///
/// ```compile_fail
/// struct Books;
/// impl region::Layout for Books { const NAME: &'static str = "books"; type Root = &'static u64; }
/// ```
///
/// A hand-written `impl`, in which nothing would check the fields, does not compile.
///
/// ```compile_fail,E0046
/// struct Books;
/// struct Tapes;
/// impl region::Layout for Tapes { const NAME: &'static str = "tapes"; type Root = u64; }
/// #[derive(Clone, Copy, region::zerocopy::FromBytes, region::zerocopy::IntoBytes, region::zerocopy::Immutable)]
/// #[zerocopy(crate = "region::zerocopy")]
/// #[repr(C)]
/// struct Stray { tape: region::Ptr<u64, Tapes> }
/// impl region::Persistent<Books> for Stray {}
/// ```
pub trait Persistent<L>: FromBytes + IntoBytes + Immutable + Copy {
    /// Says that each field may lie there, which [`persistent!`](crate::persistent) looks at.
    #[doc(hidden)]
    const EACH_FIELD_MAY: EachFieldMay;
}

/// See [`Persistent`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct EachFieldMay;

macro_rules! plain {
    ($($plain:ty)*) => { $(impl<L> Persistent<L> for $plain { const EACH_FIELD_MAY: EachFieldMay = EachFieldMay; })* };
}
plain!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);
impl<L, T: Persistent<L>, const N: usize> Persistent<L> for [T; N] {
    const EACH_FIELD_MAY: EachFieldMay = EachFieldMay;
}
impl<L: 'static, T: 'static> Persistent<L> for Ptr<T, L> {
    const EACH_FIELD_MAY: EachFieldMay = EachFieldMay;
}

/// Is there for `T` and for no type that can stand for it.
type Exactly<T> = fn(T) -> T;

/// Where a `T` lies in a pool of layout `L`: an offset, and a mark of the pool that it belongs to. All zeros
/// are no place ([`Ptr::NULL`]).
///
/// What types do not tell, the mark does when the pointer is followed: two pools of one layout that are open
/// at the same time, and a pointer whose bytes were read as another one's. A copy of a pool's file has the
/// mark of the pool.
///
/// Two types of which one can stand for the other are two layouts, too.
///
/// ```compile_fail,E0308
/// use std::marker::PhantomData;
/// struct Shelf<T>(PhantomData<T>);
/// type Any = Shelf<for<'a> fn(&'a u8)>;
/// type Lasting = Shelf<fn(&'static u8)>;
/// fn moved(at: region::Ptr<u64, Any>) -> region::Ptr<u64, Lasting> { at }
/// ```
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct Ptr<T: 'static, L: 'static> {
    word: u64,
    of: PhantomData<Exactly<(T, L)>>,
}

/// Bits of an offset.
pub(crate) const OFFSET_BITS: u32 = 48;

impl<T, L> Ptr<T, L> {
    /// Leads nowhere.
    pub const NULL: Self = Ptr { word: 0, of: PhantomData };

    pub(crate) fn new(tag: u16, offset: u64) -> Self {
        debug_assert!(offset < 1 << OFFSET_BITS);
        Ptr { word: u64::from(tag) << OFFSET_BITS | offset, of: PhantomData }
    }

    /// Whether it leads nowhere.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.word == 0
    }

    /// Itself, or `None` if it leads nowhere.
    #[must_use]
    pub fn get(self) -> Option<Self> {
        (!self.is_null()).then_some(self)
    }

    /// The offset in the pool.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.word & ((1 << OFFSET_BITS) - 1)
    }

    /// All of it.
    pub(crate) fn word(self) -> u64 {
        self.word
    }

    pub(crate) fn tag(self) -> u16 {
        (self.word >> OFFSET_BITS) as u16
    }

    /// A part of what it leads to: what the projections of [`persistent!`](crate::persistent) are made of.
    /// The closure is there for its type and is never called.
    ///
    /// # Panics
    /// If a `U` at that offset would not be inside a `T`.
    #[doc(hidden)]
    #[must_use]
    #[track_caller]
    pub fn part<U>(self, offset: usize, _: fn(&T) -> &U) -> Ptr<U, L> {
        assert!(offset + size_of::<U>() <= size_of::<T>(), "no part of that size at {offset}");
        Ptr { word: self.word + offset as u64, of: PhantomData }
    }
}

impl<T, L, const N: usize> Ptr<[T; N], L> {
    /// An element of an array.
    ///
    /// # Panics
    /// If there are no more than `index` elements.
    #[must_use]
    #[track_caller]
    pub fn element(self, index: usize) -> Ptr<T, L> {
        assert!(index < N, "element {index} of {N}");
        Ptr { word: self.word + (index * size_of::<T>()) as u64, of: PhantomData }
    }
}

impl<T, L> Clone for Ptr<T, L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, L> Copy for Ptr<T, L> {}
impl<T, L> PartialEq for Ptr<T, L> {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}
impl<T, L> Eq for Ptr<T, L> {}
impl<T, L> Hash for Ptr<T, L> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.word.hash(state);
    }
}
impl<T, L> fmt::Debug for Ptr<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(_) => write!(f, "{:#x} of pool {:#x}", self.offset(), self.tag()),
            None => f.write_str("null"),
        }
    }
}

/// Defines structs that may lie in a pool.
///
/// ```
/// pub struct Books;
/// region::persistent! { Books:
///     /// One book on the shelf.
///     pub struct Book { pub year: u64, pub next: region::Ptr<Book, Books> }
/// }
/// impl region::Layout for Books { const NAME: &'static str = "books"; type Root = region::Ptr<Book, Books>; }
/// ```
///
/// Each field has a *projection* of its name, from a pointer to the object to a pointer to the field, so that
/// a region reads and writes the field and not the whole object:
///
/// ```
/// # pub struct Books;
/// # region::persistent! { Books: pub struct Book { pub year: u64, pub next: region::Ptr<Book, Books> } }
/// # impl region::Layout for Books { const NAME: &'static str = "books"; type Root = u64; }
/// # use region::{Error, Layout, Ptr, Redo, Tx};
/// # type Work<'a, E> = Tx<'a, &'a E, Books, Redo>;
/// fn date<E: space::Env>(tx: &mut Work<'_, E>, book: Ptr<Book, Books>) -> Result<(), Error> {
///     tx.set(Book::year(book), 1969)
/// }
/// ```
///
/// A field that may not lie in a pool of that layout does not compile, nor does one that would leave a gap
/// before it.
///
/// ```compile_fail
/// struct Books;
/// region::persistent! { Books: struct Book { name: &'static str } }
/// ```
/// ```compile_fail
/// struct Books;
/// region::persistent! { Books: struct Book { shelf: u8, year: u64 } }
/// ```
#[macro_export]
macro_rules! persistent {
    ($layout:ty: $($(#[$about:meta])* $visible:vis struct $name:ident { $($(#[$field_about:meta])* $field_visible:vis $field:ident : $type:ty),* $(,)? })*) => {
        $(
            $(#[$about])*
            #[derive(Clone, Copy, Debug, PartialEq, $crate::zerocopy::FromBytes, $crate::zerocopy::IntoBytes, $crate::zerocopy::Immutable)]
            #[repr(C)]
            #[zerocopy(crate = "::region::zerocopy")]
            $visible struct $name { $($(#[$field_about])* $field_visible $field: $type),* }
            const _: fn() = || {
                fn lies<T: $crate::Persistent<$layout>>() {}
                $(lies::<$type>();)*
            };
            impl $crate::Persistent<$layout> for $name {
                const EACH_FIELD_MAY: $crate::EachFieldMay = $crate::EachFieldMay;
            }
            #[allow(dead_code, reason = "a program need not reach each field by itself")]
            impl $name {
                $(
                    #[doc = concat!("Where `", stringify!($field), "` of what `at` leads to lies.")]
                    #[inline]
                    #[must_use]
                    $field_visible fn $field(at: $crate::Ptr<Self, $layout>) -> $crate::Ptr<$type, $layout> {
                        at.part(::core::mem::offset_of!(Self, $field), |object: &Self| &object.$field)
                    }
                )*
            }
        )*
    };
}
