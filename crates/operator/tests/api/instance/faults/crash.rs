//! The operator dies after any write, and the next one ends in the same state as an undisturbed one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use firebolt_api::{FireboltInstance, InstancePhase};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::crash_env::CrashEnv;
use crate::fault_proxy::{Fault, Verb, writes};
use crate::instance::children::{CHILDREN, at};
use crate::instance::fixtures::{MAIN, instance};
use crate::instance::testenv::InstanceEnv;

/// How many tests are played at the same time.
const AT_ONCE: usize = 4;

impl CrashEnv<InstanceEnv> {
    /// The instance is wanted and becomes ready.
    async fn provision(&self) {
        if self.env.get::<FireboltInstance>(MAIN).await.is_none() {
            let one_gateway = instance(MAIN, &json!({}), &json!({ "replicas": 1 }));
            self.env.create(&one_gateway).await;
        }
        self.env.wait_for_phase(MAIN, InstancePhase::Ready).await;
    }

    /// The instance is not wanted any more and goes.
    async fn delete(&self) {
        let found = self.env.get::<FireboltInstance>(MAIN).await;
        if found.is_some_and(|found| found.metadata.deletion_timestamp.is_none()) {
            self.env.delete::<FireboltInstance>(MAIN).await;
        }
        self.env.wait_until_gone::<FireboltInstance>(MAIN).await;
    }

    /// Plays a test with an operator that is killed right after its nth write was stored, before it hears of it, and
    /// started again. Says whether there were so many writes.
    async fn killed_at(&mut self, n: usize, test: impl AsyncFn(&Self)) -> bool {
        let before = self.proxy.writes().len();
        let rule = self.proxy.on(writes().nth(n), Fault::HoldResponse);
        if !self.is_started() {
            self.start_operator();
        }
        tokio::select! {
            () = test(self) => {}
            () = rule.happened() => {}
        }
        // The last write ends the test, whichever branch notices it first.
        let struck = self.proxy.writes().len() - before >= n;
        if struck {
            rule.happened().await;
            self.kill_operator();
        }
        rule.remove();
        if struck {
            self.start_operator();
            test(self).await;
        }
        struck
    }

    /// Everything that was made, as far as it is the same in every run.
    async fn objects(&self) -> BTreeMap<String, Value> {
        let instance: FireboltInstance = self.env.the(MAIN).await;
        let same = |object: &DynamicObject| {
            let text = serde_json::to_string(&essence(object)).unwrap();
            let text = text.replace(&self.env.namespace, "(namespace)");
            let text = text.replace(&instance.spec.id.clone().unwrap(), "(id)");
            serde_json::from_str(&text.replace(&instance.uid().unwrap(), "(uid)")).unwrap()
        };
        let children = self.env.children(MAIN).await;
        children
            .iter()
            .map(|(name, child)| (name.clone(), same(child)))
            .collect()
    }
}

/// What was wanted of an object, without what is another in each run: hashes of names, and addresses.
fn essence(object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap();
    let fields = value.as_object_mut().unwrap();
    fields.remove("status");
    let keys = fields.get_mut("data").and_then(Value::as_object_mut);
    if let Some(data) = keys.filter(|data| data.contains_key("password")) {
        data.insert("password".to_owned(), json!("(secret)"));
    }
    let metadata = fields["metadata"].as_object_mut().unwrap();
    metadata
        .retain(|key, _| ["name", "labels", "annotations", "ownerReferences", "finalizers"].contains(&key.as_str()));
    for path in ["/metadata/annotations", "/spec/template/metadata/annotations"] {
        if let Some(annotations) = value.pointer_mut(path).and_then(Value::as_object_mut) {
            let other = [
                "firebolt.io/config-hash",
                "firebolt.io/credentials-hash",
                "firebolt.io/fingerprint",
                "firebolt.io/inputs-hash",
                "firebolt.io/pod-template",
                "firebolt.io/rendering-hash",
            ];
            annotations.retain(|key, _| !other.contains(&key.as_str()));
        }
    }
    for path in ["/spec/clusterIP", "/spec/clusterIPs"] {
        if let Some(address) = value
            .pointer_mut(path)
            .filter(|address| !address.to_string().contains("None"))
        {
            *address = json!("(address)");
        }
    }
    value
}

impl CrashEnv<InstanceEnv> {
    /// Sets an instance up and clears it away, each with an operator that is killed after its nth write. Says whether there
    /// were so many.
    async fn through(&mut self, n: usize, expected: &BTreeMap<String, Value>) -> [bool; 2] {
        let before = self.env.inventory().await;
        let written = self.proxy.writes().len();
        let set_up = self.killed_at(n, Self::provision).await;
        assert_eq!(self.objects().await, *expected, "killed after write {n}");
        let config = self.env.known("ConfigMap", "main-metadata-config").await;
        let id = self.env.the::<FireboltInstance>(MAIN).await.spec.id.unwrap();
        assert!(
            at(&config, "/data/config.xml").as_str().unwrap().contains(&id),
            "one identity is used"
        );
        let writes = self.proxy.writes().split_off(written);
        let made = writes
            .iter()
            .filter(|write| write.is_stored() && write.call.verb == Verb::Create);
        let made: Vec<String> = made.map(|write| write.call.to_string()).collect();
        assert_eq!(made.len(), CHILDREN.len(), "nothing is made twice: {made:?}");

        let cleared = self.killed_at(n, Self::delete).await;
        self.env.wait_until_cleared().await;
        let gone = async || (self.env.inventory().await == before).then_some(());
        self.env.eventually("nothing is left", gone).await;
        [set_up, cleared]
    }
}

/// Whichever write is the last one of an operator, the next one makes of the instance what an undisturbed one does, and
/// clears it away without leaving anything behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_operator_killed_after_any_write_converges_after_restart() {
    let mut undisturbed = CrashEnv::new(InstanceEnv::without_operator().await);
    undisturbed.start_operator();
    undisturbed.provision().await;
    let expected = undisturbed.objects().await;
    assert_eq!(expected.len(), CHILDREN.len());
    let (next, enough) = (AtomicUsize::new(1), AtomicBool::new(false));
    let last = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let worker = async || {
        let mut crash_env = CrashEnv::new(InstanceEnv::without_operator().await);
        while !enough.load(Ordering::Relaxed) {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let struck = crash_env.through(n, &expected).await;
            for (last, _) in last.iter().zip(struck).filter(|(_, struck)| *struck) {
                last.fetch_max(n, Ordering::Relaxed);
            }
            enough.fetch_or(struck == [false; 2], Ordering::Relaxed);
        }
    };
    futures::future::join_all((0..AT_ONCE).map(|_| worker())).await;
    let [set_up, cleared] = last.map(AtomicUsize::into_inner);
    println!("killed after each of {set_up} writes that set up, and of {cleared} that clear away");
    // A finalizer, an identity and every object; every object, the claim and the finalizer.
    assert!(set_up >= CHILDREN.len() + 2 && cleared >= CHILDREN.len() + 2);
}
