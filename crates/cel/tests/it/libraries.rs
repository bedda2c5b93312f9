//! Tests of expressions with variables, authorizers, patches and budgets.

use std::sync::{Arc, Mutex};

use pintle_cel::{Activation, Authorizer, Decision, Environment, Failure, Program, Question, Type, Value, Variables};
use serde_json::json;

#[derive(Default)]
struct Recorder(Mutex<Vec<Question>>);

impl Authorizer for Recorder {
    fn authorize(&self, question: &Question) -> Decision {
        self.0.lock().unwrap().push(question.clone());
        Decision { allowed: question.verb == "get", reason: "because".into(), error: None }
    }
}

fn authorizer_type() -> Type {
    Type::object("kubernetes.authorization.Authorizer")
}

#[test]
fn authorizer_gets_the_whole_question() {
    let environment = Environment::new().variable("authorizer", authorizer_type());
    let check = "authorizer.serviceAccount('ns', 'sa').group('apps').resource('deployments').subresource('scale')\
                 .namespace('n').name('d').labelSelector('a=b').check";
    let recorder = Arc::new(Recorder::default());
    let activation = Activation::new().bind("authorizer", Value::authorizer(recorder.clone()));
    let program = environment.compile(&format!("{check}('get').allowed() && !{check}('update').allowed()")).unwrap();
    assert_eq!(program.test(&activation, 1_000_000), Ok(true));
    let expected = Question {
        service_account: Some(("ns".into(), "sa".into())),
        verb: "update".into(),
        group: "apps".into(),
        resource: "deployments".into(),
        subresource: "scale".into(),
        namespace: "n".into(),
        name: "d".into(),
        label_selector: "a=b".into(),
        ..Question::default()
    };
    assert_eq!(recorder.0.lock().unwrap().last(), Some(&expected));
    let cost = program.evaluate(&activation, 1_000_000).unwrap().cost;
    assert!(cost > 700_000, "{cost}");
}

#[test]
fn variable_with_a_dotted_name_is_one_variable() {
    let check = Type::object("kubernetes.authorization.ResourceCheck");
    let environment =
        Environment::new().variable("authorizer", authorizer_type()).variable("authorizer.requestResource", check);
    let program = environment.compile("authorizer.requestResource.check('get').reason()").unwrap();
    let question = Question { resource: "pods".into(), ..Question::default() };
    let value = Value::resource_authorizer(Arc::new(Recorder::default()), question);
    let activation = Activation::new().bind("authorizer.requestResource", value);
    assert_eq!(program.evaluate(&activation, 1_000_000).unwrap().value.as_str(), Some("because"));
}

#[test]
fn patches_become_json() {
    let environment = Environment::new().variable("object", Type::Dyn).with_patches();
    let expression =
        "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b'), value: Object.data{x: object.x}}]";
    let program = environment.compile(expression).unwrap();
    assert_eq!(program.result_type().to_string(), "list(JSONPatch)");
    let object = json!({"x": [1, {"y": null}]});
    let value = program.evaluate(&Activation::new().bind("object", &object), 1_000).unwrap().value;
    let expected = json!([{"op": "add", "path": "/data/a~1b", "value": {"x": [1, {"y": null}]}}]);
    assert_eq!(value.to_json().unwrap(), expected);
    assert!(Environment::new().compile("JSONPatch{op: 'add'}").is_err());
}

#[test]
fn variables_are_asked_only_if_read() {
    struct Failing(i64);
    impl Variables<'static> for Failing {
        fn value(&self, name: &str) -> Option<Result<Value<'static>, Failure>> {
            Some(if name == "a" { Ok(Value::Int(self.0)) } else { Err(Failure::new("computed")) })
        }
    }
    let environment = Environment::new().variable("a", Type::Int).variable("b", Type::Dyn);
    let program = environment.compile("a > 1 || b.c").unwrap();
    assert_eq!(program.test(&Failing(2), 100), Ok(true));
    assert_eq!(program.test(&Failing(1), 100).unwrap_err().message(), "computed");
}

#[test]
fn spent_budget_ends_the_evaluation_despite_absorbed_errors() {
    let program = Environment::new().compile("[1, 2, 3].all(x, x > 0) || true").unwrap();
    let cost = program.evaluate(&Activation::new(), u64::MAX).unwrap().cost;
    assert!(program.evaluate(&Activation::new(), cost).is_ok());
    let error = program.evaluate(&Activation::new(), cost - 1).unwrap_err();
    assert!(error.is_out_of_budget());
    assert_eq!(error.to_string(), "operation cancelled: actual cost limit exceeded");
}

#[test]
fn programs_are_shared_between_threads() {
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let program: Program = Environment::new().compile("1 + 1 == 2").unwrap();
    shared(&program);
    let copy = program.clone();
    assert_eq!(std::thread::spawn(move || copy.test(&Activation::new(), 100)).join().unwrap(), Ok(true));
}

#[test]
fn exists_one_has_two_names_with_two_variables() {
    let environment = Environment::new().variable("list", Type::list(Type::Int));
    for (expression, is_known) in [
        ("list.exists_one(e, e == 1)", true),
        ("list.existsOne(i, e, e == 1)", true),
        ("list.existsOne(e, e == 1)", false),
    ] {
        assert_eq!(environment.compile(expression).is_ok(), is_known, "{expression}");
    }
}
