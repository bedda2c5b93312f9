//! Computes the default plural of a kind.

/// Returns the plural of a kind, by the English rules of kubebuilder and kube.
pub(crate) fn plural(kind: &str) -> String {
    let word = kind.to_lowercase();
    let ends_in = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    let before_y = word.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u']));
    match before_y {
        _ if word.ends_with("endpoints") => word,
        Some(stem) => format!("{stem}ies"),
        None if ends_in(&["s", "x", "z", "ch", "sh"]) => format!("{word}es"),
        None => format!("{word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::plural;

    #[test]
    fn plural_follows_english() {
        for (kind, expected) in [
            ("Website", "websites"),
            ("NetworkPolicy", "networkpolicies"),
            ("Gateway", "gateways"),
            ("Ingress", "ingresses"),
            ("Box", "boxes"),
            ("Batch", "batches"),
            ("Endpoints", "endpoints"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }
}
