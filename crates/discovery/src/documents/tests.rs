//! Tests of the document cache and of ETags.

use pintle_kinds::Plain;
use pintle_meta::GroupResource;

use super::*;

fn apps() -> DocumentScope {
    DocumentScope::Version(GroupVersion::new("apps", "v1"), DocumentForm::Json)
}

#[tokio::test]
async fn documents_are_cached_until_the_kinds_change() {
    let documents = Arc::new(Documents::default());
    let served = Arc::new(pintle_builtin::kinds());
    for scope in [
        apps(),
        DocumentScope::Version(GroupVersion::new("apps", "v1"), DocumentForm::Protobuf),
        DocumentScope::All(DocumentForm::Protobuf),
        DocumentScope::Listing(Listing::Groups),
        DocumentScope::Listing(Listing::Aggregated { core: true }),
    ] {
        let find = async |served| documents.find(served, scope.clone()).await.expect("made").expect("served");
        let first = find(&served).await;
        assert_eq!(find(&served).await.bytes.as_ptr(), first.bytes.as_ptr());
        // Use another set of kinds, with the same content but a different address.
        let again = find(&Arc::new(pintle_builtin::kinds())).await;
        assert_ne!(again.bytes.as_ptr(), first.bytes.as_ptr());
        assert_eq!(again.tag, first.tag);
    }
}

#[tokio::test]
async fn json_and_protobuf_documents_have_the_same_tag() {
    let served = Arc::new(pintle_builtin::kinds());
    let apps = |form| DocumentScope::Version(GroupVersion::new("apps", "v1"), form);
    let [json, protobuf] = [DocumentForm::Json, DocumentForm::Protobuf];
    for scopes in [
        [apps(json), apps(protobuf)],
        [apps(protobuf), apps(json)],
        [DocumentScope::All(json), DocumentScope::All(protobuf)],
    ] {
        let documents = Arc::new(Documents::default());
        let [first, second] = scopes.map(|scope| documents.find(&served, scope));
        let [first, second] = [first.await, second.await].map(|made| made.expect("made").expect("served"));
        assert_eq!(first.tag, second.tag);
        assert_ne!(first.bytes, second.bytes);
    }
}

#[tokio::test]
async fn index_caches_only_the_tags_of_other_documents() {
    let documents = Arc::new(Documents::default());
    let served = Arc::new(pintle_builtin::kinds());
    assert!(documents.cache.lock().is_empty());
    let index = documents.find(&served, DocumentScope::Index).await.expect("made").expect("served");
    assert_eq!(documents.cache.lock().whole(), [DocumentScope::Index]);
    let document = documents.find(&served, apps()).await.expect("made").expect("served");
    let text = String::from_utf8_lossy(&index.bytes).into_owned();
    assert!(text.contains(&format!("\"/openapi/v3/apis/apps/v1?hash={}\"", document.tag)), "{text}");
    let nowhere = DocumentScope::Version(GroupVersion::new("no.such", "v1"), DocumentForm::Protobuf);
    assert!(documents.find(&served, nowhere).await.expect("looked up").is_none());
}

#[tokio::test]
async fn changed_definition_invalidates_only_its_own_documents() {
    const COUNT: usize = 300;
    let documents = Arc::new(Documents::default());
    let mut served = pintle_builtin::kinds();
    let change = |served: &mut Kinds, at: usize, kind: &str| {
        let resource = GroupResource::new(format!("g{at}.com"), "widgets");
        let kind = Kind { plural: "widgets".into(), ..Kind::body_only(&resource.group, "v1", kind, Arc::new(Plain)) };
        served.replace_custom(&resource, vec![kind]);
    };
    (0..COUNT).for_each(|at| change(&mut served, at, "Widget"));
    let mut before = Arc::new(served);
    documents.find(&before, DocumentScope::Index).await.expect("made");
    for at in [0, 7, COUNT - 1] {
        let mut after = Kinds::clone(&before);
        change(&mut after, at, "Gadget");
        let tags = |documents: &Documents| documents.cache.lock().tags();
        let (after, old) = (Arc::new(after), tags(&documents));
        documents.find(&after, DocumentScope::Index).await.expect("made");
        let mut made = tags(&documents);
        made.retain(|scope, tag| !old.get(scope).is_some_and(|old| Arc::ptr_eq(old, tag)));
        let mut made: Vec<_> = made.into_keys().collect();
        made.sort_by_key(|scope| *scope == DocumentScope::Index);
        let version = GroupVersion::new(format!("g{at}.com"), "v1");
        assert_eq!(made, [DocumentScope::Version(version, DocumentForm::Json), DocumentScope::Index]);
        before = after;
    }
}
