//! An operator that reaches the API server through a fault proxy, and that tests kill and start again.

use std::borrow::Borrow;

use rustix::process::Signal;
use testkit::wait::SOON;

use crate::fault_proxy::Proxy;
use crate::support::Operator;
use crate::testenv::TestEnv;

/// A test environment with an operator behind a proxy. The operator does not run until it is started.
pub(crate) struct CrashEnv<E> {
    operator: Option<Operator>,
    pub proxy: Proxy,
    pub env: E,
}

impl<E: Borrow<TestEnv>> CrashEnv<E> {
    /// Adds the proxy to an environment without an operator.
    pub(crate) fn new(env: E) -> Self {
        let base = env.borrow();
        Self {
            operator: None,
            proxy: Proxy::start(&base.cluster, base.kubeconfig()),
            env,
        }
    }

    /// Starts the operator without leader election: it waits for no lease.
    pub(crate) fn start_operator(&mut self) {
        let base = self.env.borrow();
        let flags = ["--namespaces", &base.namespace, "--leader-elect=false"];
        self.operator = Some(Operator::start(&base.cluster, &self.proxy.kubeconfig(), &flags));
    }

    /// Whether the operator was started and not killed.
    pub(crate) fn is_started(&self) -> bool {
        self.operator.is_some()
    }

    /// Kills the operator and waits until it has ended.
    pub(crate) fn kill_operator(&mut self) {
        let mut operator = self.operator.take().expect("it runs");
        operator.signal(Signal::KILL);
        operator.wait(SOON);
    }
}
