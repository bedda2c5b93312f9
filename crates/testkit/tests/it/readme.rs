//! Checks that the README contains the example from the crate documentation, which is run as a doc test.

#[test]
fn example_of_the_readme_is_on_the_crate_page() {
    let (readme, page) = (include_str!("../../README.md"), include_str!("../../src/lib.rs"));
    let (_, example) = readme.split_once("```rs\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    assert!((15..30).contains(&example.lines().count()));
    let mut page = page.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim_start);
    for line in example.lines().map(str::trim).filter(|line| !line.is_empty()) {
        assert!(page.any(|shown| shown.trim() == line), "the crate page lacks this line, or has another order: {line}");
    }
}
