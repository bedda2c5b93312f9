//! Compares validation errors with recorded errors of kube-apiserver 1.36.1.
//!
//! For each kind, the files `validation_rows*.txt` contain a complete object and several rows. Each row sets one field
//! of the complete object. The line after each row lists the reason and field of each expected error, or a dash if the
//! object is valid.

use pintle_json::Json;

use super::strategies::{EmptyCluster, context};

const ROWS: &str = concat!(include_str!("validation_rows.txt"), include_str!("validation_rows_more.txt"));

#[test]
fn validation_errors_match_kube_apiserver() {
    let (mut kind, mut whole) = (None, Json::Null);
    let mut lines = ROWS.lines().filter(|line| !line.starts_with("//"));
    let mut rows = 0;
    while let Some(line) = lines.next() {
        if let Some(head) = line.strip_prefix("# ") {
            let mut parts = head.splitn(4, ' ');
            let [group, version, plural, object] = std::array::from_fn(|_| parts.next().expect("four parts"));
            kind = pintle_builtin::kinds().resource(group, version, plural).cloned();
            whole = serde_json::from_str(object).expect("an object");
            continue;
        }
        let kind = kind.as_ref().expect("a kind");
        let (path, value) = line.split_once(' ').expect("a path and a value");
        let (holder, key) = path.rsplit_once('/').expect("a path");
        let mut object = whole.clone();
        let holder = if holder.is_empty() { Some(&mut object) } else { object.at_mut(holder) };
        holder.expect("the parent of the field").set(key, serde_json::from_str::<Json>(value).expect("a value"));
        kind.set_defaults(&mut object);
        kind.prepare_for_create(&context(&EmptyCluster), &mut object);
        let errors = kind.strategy.validate_create(&object);
        let short = |reason: &str| reason["FieldValue".len()..].to_owned();
        let found: Vec<_> =
            errors.iter().map(|error| format!("{} {}", short(error.reason.as_str()), error.field)).collect();
        let wanted = lines.next().expect("a line of errors").trim();
        let wanted = if wanted == "-" { "" } else { wanted };
        assert_eq!(found.join(", "), wanted, "{}: {line}: {errors:?}", kind.kind);
        rows += 1;
    }
    assert!(rows > 220, "{rows}");
}
