//! The operator dies after any write to a class, and the next one goes on.

use firebolt_api::key::Finalizer;
use firebolt_api::{FireboltEngine, FireboltEngineClass};
use kube::ResourceExt;

use super::testenv::{CLASS, bound};
use crate::crash_env::CrashEnv;
use crate::fault_proxy::{Fault, writes};
use crate::fixtures::{class, engine};
use crate::testenv::TestEnv;

/// A finalizer, a status, a count, what holds the deletion up, and the finalizer off again.
const WRITES: usize = 5;

/// The engine that refers to the class.
const USER: &str = "user";
/// An engine whose presence says that the first part of the test is over.
const MARK: &str = "over";

impl CrashEnv<TestEnv> {
    /// A class comes, is used, is to go, and goes when it can. With each of the steps done only if it has not been, it can
    /// be repeated from any point.
    async fn create_use_and_delete(&self) {
        let env = &self.env;
        if env.get::<FireboltEngine>(MARK).await.is_none() {
            self.first_part().await;
            env.create(&engine(MARK).replicas(0).0).await;
        }
        let class = env.get::<FireboltEngineClass>(CLASS).await;
        if class.is_some_and(|class| class.metadata.deletion_timestamp.is_none()) {
            env.delete::<FireboltEngineClass>(CLASS).await;
        }
        let user = env.get::<FireboltEngine>(USER).await;
        if user.is_some_and(|user| user.metadata.deletion_timestamp.is_none()) {
            env.wait_for_class_reason(CLASS, "DeletionBlocked").await;
            env.delete::<FireboltEngine>(USER).await;
        }
        env.wait_until_gone::<FireboltEngineClass>(CLASS).await;
    }

    async fn first_part(&self) {
        let env = &self.env;
        if env.get::<FireboltEngineClass>(CLASS).await.is_none() {
            env.create(&class(CLASS).0).await;
        }
        let found = env.wait_for_class_reason(CLASS, "Admissible").await;
        assert_eq!(found.status, "True");
        let held: FireboltEngineClass = env.the(CLASS).await;
        assert_eq!(held.finalizers(), [Finalizer::EngineClass.key()]);
        if env.get::<FireboltEngine>(USER).await.is_none() {
            env.create(&bound(USER).0).await;
        }
        env.wait_for_bound(CLASS, 1).await;
    }

    /// Plays the test with an operator that is killed right after its nth write to the class was stored, before it hears
    /// of it, and started again. Says whether there were so many writes.
    async fn killed_at(&mut self, n: usize) -> bool {
        let rule = self
            .proxy
            .on(writes().of("fireboltengineclasses").nth(n), Fault::HoldResponse);
        self.start_operator();
        tokio::select! {
            () = self.create_use_and_delete() => {}
            () = rule.happened() => {}
        }
        // The last write ends the test, whichever branch notices it first.
        let written = self.proxy.writes();
        let to_class = written
            .iter()
            .filter(|write| write.call.resource == "fireboltengineclasses");
        let struck = to_class.count() >= n;
        if struck {
            rule.happened().await;
            self.kill_operator();
            rule.remove();
            self.start_operator();
            self.create_use_and_delete().await;
        }
        struck
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_operator_killed_after_any_write_converges_after_restart() {
    let mut last = 0;
    while CrashEnv::new(TestEnv::without_operator().await)
        .killed_at(last + 1)
        .await
    {
        last += 1;
    }
    println!("killed after each of {last} writes");
    assert!(last >= WRITES, "{last}");
}
