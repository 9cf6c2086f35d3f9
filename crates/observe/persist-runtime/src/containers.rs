//! Functions of the C++ library that link the nodes of `std::map`, `std::set` and `std::list`, and that a
//! hash table asks for its size. They are not compiled with the program, and with an allocator of the pool
//! their nodes lie there.

use std::ffi::c_void;

use crate::local::announce;
use crate::sync::call;
use crate::window;

/// The base of a tree's node.
#[repr(C)]
pub struct Node {
    red: u64,
    parent: *mut Node,
    left: *mut Node,
    right: *mut Node,
}

/// The base of a list's node.
#[repr(C)]
pub struct Link {
    next: *mut Link,
    previous: *mut Link,
}

/// What a hash table's policy answers, in two registers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Rehash {
    needed: u64,
    buckets: u64,
}

fn change<T>(at: *mut T) {
    if window::contains(at as usize) {
        announce(at as usize, size_of::<T>());
    }
}

/// Announces all of a subtree's first levels: rotations change no others.
fn change_below(node: *mut Node, levels: u32) {
    if node.is_null() {
        return;
    }
    change(node);
    if levels > 0 {
        // SAFETY: a node of the program's tree, which its thread alone changes now.
        let (left, right) = unsafe { ((*node).left, (*node).right) };
        change_below(left, levels - 1);
        change_below(right, levels - 1);
    }
}

/// Announces what rebalancing may change on the way from a node to the root: ancestors, their siblings, and
/// the children of those.
fn change_above(mut node: *mut Node, header: *mut Node) {
    change(header);
    while !node.is_null() && node != header {
        change_below(node, 3);
        // SAFETY: as above.
        node = unsafe { (*node).parent };
    }
}

/// Interposed: `std::_Rb_tree_insert_and_rebalance`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_(
    left: bool,
    node: *mut Node,
    parent: *mut Node,
    header: *mut Node,
) {
    if window::contains(node as usize) || window::contains(header as usize) {
        change(node);
        change_above(parent, header);
    }
    call!(_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_(
        left: bool, node: *mut Node, parent: *mut Node, header: *mut Node
    ) -> ());
}

/// Interposed: `std::_Rb_tree_rebalance_for_erase`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZSt28_Rb_tree_rebalance_for_erasePSt18_Rb_tree_node_baseRS_(
    node: *mut Node,
    header: *mut Node,
) -> *mut Node {
    if window::contains(node as usize) || window::contains(header as usize) {
        // The next node takes its place: what lies above that one is changed, this node's surroundings
        // among it.
        let mut lowest = node;
        // SAFETY: nodes of the program's tree.
        unsafe {
            if !(*node).left.is_null() && !(*node).right.is_null() {
                lowest = (*node).right;
                while !(*lowest).left.is_null() {
                    lowest = (*lowest).left;
                }
            }
        }
        change_above(lowest, header);
        change_above(node, header);
    }
    call!(_ZSt28_Rb_tree_rebalance_for_erasePSt18_Rb_tree_node_baseRS_(
        node: *mut Node, header: *mut Node
    ) -> *mut Node)
}

/// Announces a link and its neighbours.
fn change_around(link: *mut Link) {
    change(link);
    // SAFETY: a node of the program's list, or one that is about to be: its neighbours are nodes then, or
    // not used.
    let (next, previous) = unsafe { ((*link).next, (*link).previous) };
    change(next);
    change(previous);
}

/// Interposed: `std::__detail::_List_node_base::_M_hook`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZNSt8__detail15_List_node_base7_M_hookEPS0_(link: *mut Link, before: *mut Link) {
    change(link);
    change_around(before);
    call!(_ZNSt8__detail15_List_node_base7_M_hookEPS0_(link: *mut Link, before: *mut Link) -> ());
}

/// Interposed: `std::__detail::_List_node_base::_M_unhook`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZNSt8__detail15_List_node_base9_M_unhookEv(link: *mut Link) {
    change_around(link);
    call!(_ZNSt8__detail15_List_node_base9_M_unhookEv(link: *mut Link) -> ());
}

/// Interposed: `std::__detail::_List_node_base::_M_transfer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZNSt8__detail15_List_node_base11_M_transferEPS0_S1_(
    link: *mut Link,
    first: *mut Link,
    last: *mut Link,
) {
    change_around(link);
    change_around(first);
    change_around(last);
    call!(_ZNSt8__detail15_List_node_base11_M_transferEPS0_S1_(
        link: *mut Link, first: *mut Link, last: *mut Link
    ) -> ());
}

/// Interposed: `std::__detail::_List_node_base::_M_reverse`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZNSt8__detail15_List_node_base10_M_reverseEv(list: *mut Link) {
    let mut link = list;
    loop {
        change(link);
        // SAFETY: the nodes of a list form a ring.
        link = unsafe { (*link).next };
        if link == list {
            break;
        }
    }
    call!(_ZNSt8__detail15_List_node_base10_M_reverseEv(list: *mut Link) -> ());
}

/// Interposed: `std::__detail::_List_node_base::swap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZNSt8__detail15_List_node_base4swapERS0_S1_(one: *mut Link, other: *mut Link) {
    change_around(one);
    change_around(other);
    call!(_ZNSt8__detail15_List_node_base4swapERS0_S1_(one: *mut Link, other: *mut Link) -> ());
}

/// Bytes of a hash table's policy: a load factor, and the size up to which its buckets do.
const POLICY: usize = 16;

fn change_policy(policy: *mut c_void) {
    if window::contains(policy as usize) {
        announce(policy as usize, POLICY);
    }
}

/// Interposed: `std::__detail::_Prime_rehash_policy::_M_need_rehash`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm(
    policy: *mut c_void,
    buckets: usize,
    elements: usize,
    more: usize,
) -> Rehash {
    change_policy(policy);
    call!(_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm(
        policy: *mut c_void, buckets: usize, elements: usize, more: usize
    ) -> Rehash)
}

/// Interposed: `std::__detail::_Prime_rehash_policy::_M_next_bkt`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm(
    policy: *mut c_void,
    buckets: usize,
) -> usize {
    change_policy(policy);
    call!(_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm(policy: *mut c_void, buckets: usize) -> usize)
}
