//! Checks that the modules in a folder do not depend on each other in a cycle. For example, the modules in `queue/`
//! must not form a cycle, but they may use the items of `queue.rs`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::Path;

use super::modules::{paths_from, without_comments};
use super::words::without_tests;
use super::{Finding, Source};

/// The path of a module: the crate, the parent modules, and the module's name.
type Module = Vec<String>;

pub(super) fn check(sources: &[Source], findings: &mut Vec<Finding>) {
    let is_code = |source: &&Source| source.is("rs") && source.path.file_stem() != Some(OsStr::new("tests"));
    let code = |source: &Source| without_comments(without_tests(&source.text));
    let modules = sources.iter().filter(is_code);
    let modules = modules.map(|source| (module(&source.path), (&*source.path, code(source)))).collect();
    findings.extend(circles(&modules));
    findings.extend(imports_through_root(&modules));
}

/// Converts a file path such as `crates/a/src/b/c.rs` to `a::b::c`. Each test program and each example is a crate of its
/// own, so `crates/a/tests/it/b.rs` becomes `a/tests/it::b`.
fn module(file: &Path) -> Module {
    let file = file.with_extension("");
    let names: Vec<&str> = file.iter().filter_map(OsStr::to_str).filter(|name| *name != "crates").collect();
    let place = names.iter().position(|name| matches!(*name, "src" | "tests" | "examples" | "benches"));
    let (inside, root) = match place {
        Some(place) if names[place] == "src" => (place + 1, "lib"),
        Some(place) => (place + 2, "main"),
        None => (names.len(), "main"),
    };
    let (outside, inner) = names.split_at(inside.min(names.len()));
    let inner = inner.iter().filter(|name| **name != root).map(|name| (*name).to_owned());
    let outside = outside.join("/");
    [outside.strip_suffix("/src").unwrap_or(&outside).to_owned()].into_iter().chain(inner).collect()
}

/// Returns all items that the modules import. A key is the path of the importing module with the name of the item, and
/// the value is the imported path.
fn imports(modules: &BTreeMap<Module, (&Path, String)>) -> HashMap<Module, Module> {
    let mut known_as = HashMap::new();
    for (module, (_, code)) in modules {
        for statement in code.split("\nuse ").skip(1).chain(code.split(" use ").skip(1)) {
            let statement = statement.split(';').next().unwrap_or_default();
            for (_, path) in used(module, statement, modules) {
                let name = &path[path.len() - 1];
                known_as.insert([&module[..], &[renamed(name, statement).to_owned()]].concat(), path);
            }
        }
    }
    known_as
}

/// Returns the new name of an item that the statement imports with `as`, or its own name if it is not renamed.
fn renamed<'a>(name: &'a str, statement: &'a str) -> &'a str {
    let is_in_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut renames = statement.split(" as ").zip(statement.split(" as ").skip(1));
    let found = renames.find(|(before, _)| before.rsplit(|c| !is_in_word(c)).next() == Some(name));
    found.and_then(|(_, after)| after.split(|c| !is_in_word(c)).next()).unwrap_or(name)
}

/// Reports imports of an item through the root of its own crate. Inside this crate, the item must be imported from the
/// module that defines it.
fn imports_through_root(modules: &BTreeMap<Module, (&Path, String)>) -> Vec<Finding> {
    let known_as = imports(modules);
    let mut findings = Vec::new();
    for (module, (file, code)) in modules.iter().filter(|(module, _)| module.len() > 1) {
        // An indented `use super::` is in a nested module, where `super` is the module of this file, so skip it.
        let inner = |line: usize| {
            code.lines().nth(line - 1).is_some_and(|text| text.starts_with(" ") && text.contains("use super::"))
        };
        // Ignore paths in macros, which may be expanded in other crates.
        for (line, path) in used(module, &code.replace("$crate::", ""), modules) {
            let item = &path[..path.len().min(2)];
            let is_root_item = path[0] == module[0] && !modules.contains_key(item) && known_as.contains_key(item);
            if is_root_item && !inner(line) {
                let owner = owner(item.to_vec(), modules, &known_as)[1..].join("::");
                let what = format!("imports {} through the root: import it from crate::{owner}", item[1..].join("::"));
                findings.push(Finding::new(file, line, what));
            }
        }
    }
    findings
}

fn circles(modules: &BTreeMap<Module, (&Path, String)>) -> Vec<Finding> {
    let known_as = imports(modules);
    let mut uses: BTreeMap<String, BTreeMap<String, (&Path, usize)>> = BTreeMap::new();
    for (module, (file, code)) in modules {
        for (line, path) in used(module, code, modules) {
            let path = owner(path, modules, &known_as);
            let common = module.iter().zip(&path).take_while(|(one, other)| one == other).count();
            if common < module.len().min(path.len()) {
                let [from, to] = [module, &path].map(|path| path[..=common].join("::"));
                uses.entry(from).or_default().entry(to).or_insert((file, line));
            }
        }
    }
    let mut findings = Vec::new();
    for (from, all) in &uses {
        for (to, (file, line)) in all.iter().filter(|(to, _)| reaches(&uses, to, from)) {
            findings.push(Finding::new(file, *line, format!("{from} uses {to}, which leads back to {from}")));
        }
    }
    findings
}

/// Returns the paths in a module's code that refer to its own crate, with their lines.
fn used(module: &Module, code: &str, modules: &BTreeMap<Module, (&Path, String)>) -> Vec<(usize, Module)> {
    let mut roots = vec![("crate::".to_owned(), module[..1].to_vec()), ("self::".to_owned(), module.clone())];
    roots.extend((1..module.len()).map(|up| ("super::".repeat(up), module[..module.len() - up].to_vec())));
    let parts = modules.keys().filter(|part| part.len() == module.len() + 1 && part.starts_with(module));
    roots.extend(parts.map(|part| (format!("{}::", part[module.len()]), part.clone())));
    let found =
        roots.iter().flat_map(|(root, base)| paths_from(root, code).into_iter().map(move |found| (base, found)));
    found
        .filter(|(_, (_, path))| path.first().is_none_or(|name| name != "super"))
        .map(|(base, (line, path))| (line, [&base[..], &path[..]].concat()))
        .collect()
}

/// Returns the module that defines an item, and follows re-exports to find it.
fn owner(mut path: Module, modules: &BTreeMap<Module, (&Path, String)>, known_as: &HashMap<Module, Module>) -> Module {
    // Follow at most eight re-exports, because they can form a cycle.
    for _ in 0..8 {
        let own = (1..=path.len()).rev().find(|&length| modules.contains_key(&path[..length])).unwrap_or(1);
        match path.get(..=own).and_then(|item| known_as.get(item)).filter(|known| !path.starts_with(known)) {
            Some(known) => path = [&known[..], &path[own + 1..]].concat(),
            None => return path[..own].to_vec(),
        }
    }
    path
}

fn reaches(uses: &BTreeMap<String, BTreeMap<String, (&Path, usize)>>, from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module) {
            next.extend(uses.get(module).into_iter().flatten().map(|(used, _)| used.as_str()));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let files = files.iter().map(|(file, code)| (module(Path::new(file)), (Path::new(file), (*code).to_owned())));
        let found: Vec<String> = circles(&files.collect()).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn direct_circles_are_found() {
        let files =
            [("crates/a/src/b.rs", "use crate::c::C;\n"), ("crates/a/src/c.rs", "fn f() {\n    super::b::f()\n}\n")];
        let expected = [
            "crates/a/src/b.rs:1: a::b uses a::c, which leads back to a::b",
            "crates/a/src/c.rs:2: a::c uses a::b, which leads back to a::c",
        ];
        check(&files, &expected);
        check(&files[..1], &[]);
    }

    #[test]
    fn indirect_circles_are_found() {
        let files = [
            ("crates/a/src/b.rs", "mod in;\n"),
            ("crates/a/src/b/in.rs", "use crate::{c::{self, C}, d};\n"),
            ("crates/a/src/c.rs", "use crate::d::D;\n"),
            ("crates/a/src/d.rs", "use super::b;\n"),
        ];
        let expected = [
            "crates/a/src/b/in.rs:1: a::b uses a::c, which leads back to a::b",
            "crates/a/src/b/in.rs:1: a::b uses a::d, which leads back to a::b",
            "crates/a/src/c.rs:1: a::c uses a::d, which leads back to a::c",
            "crates/a/src/d.rs:1: a::d uses a::b, which leads back to a::d",
        ];
        check(&files, &expected);
    }

    #[test]
    fn reexports_count_as_uses_of_the_defining_module() {
        let files = [
            ("crates/a/src/b.rs", "mod c;\nmod d;\n\npub(crate) use c::C;\n\nstruct B;\n"),
            ("crates/a/src/b/c.rs", "use super::{B, d};\n"),
            ("crates/a/src/b/d.rs", "use super::{B, C};\n"),
        ];
        let expected = [
            "crates/a/src/b/c.rs:1: a::b::c uses a::b::d, which leads back to a::b::c",
            "crates/a/src/b/d.rs:1: a::b::d uses a::b::c, which leads back to a::b::d",
        ];
        check(&files, &expected);
        check(&files[..2], &[]);
    }

    #[test]
    fn renamed_reexports_count_as_uses_of_the_defining_module() {
        let files = [
            ("crates/a/src/b.rs", "mod c;\nmod d;\n\npub(crate) use c::{C as E, F};\n"),
            ("crates/a/src/b/c.rs", "use super::d;\n"),
            ("crates/a/src/b/d.rs", "use super::E;\n"),
        ];
        let expected = [
            "crates/a/src/b/c.rs:1: a::b::c uses a::b::d, which leads back to a::b::c",
            "crates/a/src/b/d.rs:1: a::b::d uses a::b::c, which leads back to a::b::d",
        ];
        check(&files, &expected);
    }

    #[test]
    fn test_programs_are_separate_crates() {
        let files = [
            ("crates/a/src/b.rs", "use crate::c;\n"),
            ("crates/a/tests/it/c.rs", "use crate::b;\n"),
            ("crates/a/tests/it/main.rs", "mod b;\nmod c;\n"),
            ("crates/a/tests/it/b.rs", "use crate::c;\n"),
        ];
        let expected = [
            "crates/a/tests/it/b.rs:1: a/tests/it::b uses a/tests/it::c, which leads back to a/tests/it::b",
            "crates/a/tests/it/c.rs:1: a/tests/it::c uses a/tests/it::b, which leads back to a/tests/it::c",
        ];
        check(&files, &expected);
        check(&[files[0], files[1]], &[]);
    }

    #[test]
    fn imports_through_the_root_are_found() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;\n\npub use b::B;\npub use c::C;\n"),
            ("crates/a/src/b.rs", "use crate::{C, c};\n\nmacro_rules! b {\n    () => { $crate::C }\n}\n"),
            (
                "crates/a/src/c.rs",
                "use crate::b::B;\n\nfn f() {\n    crate::B::new()\n}\n\nmod inner {\n    use super::B;\n}\n",
            ),
        ];
        let files = files.map(|(file, code)| (module(Path::new(file)), (Path::new(file), code.to_owned())));
        let found = imports_through_root(&files.into_iter().collect());
        let expected = [
            "crates/a/src/b.rs:1: imports C through the root: import it from crate::c",
            "crates/a/src/c.rs:4: imports B through the root: import it from crate::b",
        ];
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
    }
}
