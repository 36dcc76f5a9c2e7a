//! Which uses count, on small crates written for the purpose.

use std::fs;

use super::cycles;
use super::source::Crate;

/// The cycles of a crate with these files: the parent and its modules.
fn cycles_of(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    let source = Crate::read(&folder.path().join("lib.rs")).expect("a crate");
    let found = cycles(&source);
    found
        .into_iter()
        .map(|cycle| (cycle.parent, cycle.modules.join(" ")))
        .collect()
}

fn cycle(parent: &str, modules: &str) -> (String, String) {
    (parent.to_owned(), modules.to_owned())
}

#[test]
fn modules_that_use_each_other_are_a_cycle() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "pub struct B(super::a::A);"),
    ];
    assert_eq!(cycles_of(&files), [cycle("", "a b")]);
}

#[test]
fn a_cycle_around_three_modules_is_found_and_one_direction_is_none() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b; use crate::d;"),
        ("b.rs", "use crate::{c::{self, C}, d};"),
        ("c.rs", "pub struct C; fn f() { crate::a::f() }"),
        ("d.rs", "pub struct D;"),
    ];
    assert_eq!(cycles_of(&files), [cycle("", "a b c")]);
}

#[test]
fn a_re_export_counts_as_the_module_behind_it() {
    let files = [
        ("lib.rs", "mod error; mod run; pub use error::Error as Failure;"),
        ("error.rs", "use crate::run::Run; pub struct Error;"),
        ("run.rs", "pub struct Run; fn f() -> crate::Failure {}"),
    ];
    assert_eq!(cycles_of(&files), [cycle("", "error run")]);
}

#[test]
fn a_re_export_of_everything_counts_as_the_module_behind_it() {
    let files = [
        ("lib.rs", "mod error; mod run; pub use self::error::*;"),
        ("error.rs", "use crate::run::Run; pub struct Error;"),
        ("run.rs", "pub struct Run; fn f() -> crate::Error {}"),
    ];
    assert_eq!(cycles_of(&files), [cycle("", "error run")]);
}

#[test]
fn a_parent_and_its_children_are_no_cycle() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod b; pub use b::B; pub struct A; fn f() { b::g() }"),
        ("a/b.rs", "use super::A; pub struct B; use super::f;"),
    ];
    assert!(cycles_of(&files).is_empty());
}

#[test]
fn deeper_modules_count_for_the_level_at_which_they_part() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "mod x; mod y;"),
        ("a/x.rs", "use crate::b::deep::f; use super::y;"),
        ("a/y.rs", "use crate::a::x::X;"),
        ("b.rs", "pub mod deep;"),
        ("b/deep.rs", "fn g() { crate::a::y::h() }"),
    ];
    assert_eq!(cycles_of(&files), [cycle("", "a b"), cycle("a", "x y")]);
}

#[test]
fn a_path_through_an_imported_ancestor_counts() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod x; mod y;"),
        ("a/x.rs", "use crate::a; fn f() { a::y::g() }"),
        ("a/y.rs", "use super::x::f;"),
    ];
    assert_eq!(cycles_of(&files), [cycle("a", "x y")]);
}

#[test]
fn paths_within_macros_count_and_comments_texts_and_fields_do_not() {
    let used = |body: &str| {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", body),
        ];
        !cycles_of(&files).is_empty()
    };
    assert!(used("fn f() { println!(\"{}\", crate::a::NAME); }"));
    assert!(used("fn f() { let x = S { ..crate::a::S }; }"));
    assert!(used("fn f(x: crate::a::A<'_>) {}"));
    assert!(!used(
        "//! [`crate::a`]\nfn f() { \"crate::a::f\"; /* crate::a::f */ x.a::<u8>(); }"
    ));
    assert!(!used("use other::crate_a::a; pub(crate) fn a() {}"));
}

#[test]
fn test_code_is_left_out() {
    let used = |body: &str| {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", body),
            ("b/tests.rs", "use crate::a::A;"),
        ];
        !cycles_of(&files).is_empty()
    };
    assert!(!used("#[cfg(test)] mod tests;"));
    assert!(!used(
        "#[cfg(test)] #[allow(x)] mod tests { use crate::a::A; } fn f() {}"
    ));
    assert!(!used(
        "#[cfg(any(test, feature = \"x\"))] fn f<A, B>() { crate::a::f() }"
    ));
    assert!(!used("struct S { #[cfg(test)] a: crate::a::A, b: u8 }"));
    assert!(used("struct S { #[cfg(test)] b: u8, a: crate::a::A }"));
    assert!(used("#[cfg(not(test))] use crate::a::A;"));
    assert!(used("#[cfg(test)] mod tests; use crate::a::A;"));
}

#[test]
fn a_module_of_another_program_is_not_read() {
    let files = [
        ("lib.rs", "mod a; #[path = \"../b.rs\"] #[allow(x)] mod b; mod c;"),
        ("a.rs", "use crate::b::B; use crate::c::C;"),
        ("c.rs", "use crate::a::A;"),
    ];
    assert_eq!(cycles_of(&files), [cycle("", "a c")]);
}
