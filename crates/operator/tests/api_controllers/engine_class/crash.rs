//! The operator dies after a write to a class, whichever it is, and the next one goes on where it was.

use firebolt_api::key::Finalizer;
use firebolt_api::{FireboltEngine, FireboltEngineClass};
use kube::ResourceExt;
use rustix::process::Signal;

use super::stage::{ALONE, CLASS, bound};
use crate::fixture::{class, engine};
use crate::proxy::{Fault, Proxy, writes};
use crate::scene::Scene;
use crate::support::{Operator, SOON};

/// A finalizer, a status, a count, what holds the deletion up, and the finalizer off again.
const WRITES: usize = 5;

/// The engine that refers to the class.
const USER: &str = "user";
/// An engine whose presence says that the first part of the story is over.
const MARK: &str = "over";

/// An operator behind a proxy.
struct Play {
    operator: Option<Operator>,
    proxy: Proxy,
    scene: Scene,
}

impl Play {
    async fn set() -> Self {
        let scene = Scene::without_operator().await;
        Self {
            operator: None,
            proxy: Proxy::start(&scene.cluster, scene.kubeconfig()),
            scene,
        }
    }

    fn start(&mut self) {
        let flags = [ALONE, "--namespaces", &self.scene.namespace];
        self.operator = Some(Operator::start(&self.scene.cluster, &self.proxy.kubeconfig(), &flags));
    }

    fn kill(&mut self) {
        let mut operator = self.operator.take().expect("it runs");
        operator.signal(Signal::KILL);
        operator.wait(SOON);
    }

    /// A class comes, is used, is to go, and goes when it can. With each of the steps done only if it has not been, it can
    /// be told again from any point.
    async fn story(&self) {
        let scene = &self.scene;
        if scene.get::<FireboltEngine>(MARK).await.is_none() {
            self.first_part().await;
            scene.create(&engine(MARK).replicas(0).0).await;
        }
        let class = scene.get::<FireboltEngineClass>(CLASS).await;
        if class.is_some_and(|class| class.metadata.deletion_timestamp.is_none()) {
            scene.delete::<FireboltEngineClass>(CLASS).await;
        }
        let user = scene.get::<FireboltEngine>(USER).await;
        if user.is_some_and(|user| user.metadata.deletion_timestamp.is_none()) {
            scene.wait_for_class_reason(CLASS, "DeletionBlocked").await;
            scene.delete::<FireboltEngine>(USER).await;
        }
        scene.wait_until_gone::<FireboltEngineClass>(CLASS).await;
    }

    async fn first_part(&self) {
        let scene = &self.scene;
        if scene.get::<FireboltEngineClass>(CLASS).await.is_none() {
            scene.create(&class(CLASS).0).await;
        }
        let found = scene.wait_for_class_reason(CLASS, "Admissible").await;
        assert_eq!(found.status, "True");
        let held: FireboltEngineClass = scene.the(CLASS).await;
        assert_eq!(held.finalizers(), [Finalizer::EngineClass.key()]);
        if scene.get::<FireboltEngine>(USER).await.is_none() {
            scene.create(&bound(USER).0).await;
        }
        scene.wait_for_bound(CLASS, 1).await;
    }

    /// Plays the story with an operator that is killed right after its nth write to the class was stored, before it hears
    /// of it, and started again. Says whether there were so many writes.
    async fn killed_at(&mut self, n: usize) -> bool {
        let rule = self
            .proxy
            .on(writes().of("fireboltengineclasses").nth(n), Fault::HoldResponse);
        self.start();
        tokio::select! {
            () = self.story() => {}
            () = rule.happened() => {}
        }
        // The last write ends the story, whoever notices first.
        let written = self.proxy.writes();
        let to_class = written
            .iter()
            .filter(|write| write.call.resource == "fireboltengineclasses");
        let struck = to_class.count() >= n;
        if struck {
            rule.happened().await;
            self.kill();
            rule.remove();
            self.start();
            self.story().await;
        }
        struck
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn killed_after_any_write_the_next_operator_ends_in_the_same_place() {
    let mut last = 0;
    while Play::set().await.killed_at(last + 1).await {
        last += 1;
    }
    println!("killed after each of {last} writes");
    assert!(last >= WRITES, "{last}");
}
