//! A cluster as processes: started, watched, stopped and, by its owner, torn down.

use std::path::Path;
use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::components;
use crate::process::Program;
use crate::state::folder::Folder;
use crate::state::layout::{Layout, Shape};
use crate::state::ports::Ports;
use crate::tools::Tools;
use crate::topology::{Component, Node};
use crate::{Error, Result, identity, process};

/// The processes of one cluster, and its folder if this process owns it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) layout: Layout,
    pub(crate) tools: Tools,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Present while the cluster is this process's to remove.
    folder: Option<Folder>,
    /// Set for good by tear-down, which may run in the thread that handles signals while another still starts things.
    closing: bool,
    children: Vec<(Component, Child)>,
}

impl Running {
    /// A new cluster in a directory that this process owns. Nothing is written yet: tear-down has to know of the
    /// cluster before there are keys that could be left behind.
    pub(crate) fn own(folder: Folder, tools: Tools, nodes: Vec<Node>) -> Self {
        let shape = Shape {
            ports: Ports::choose(),
            nodes,
        };
        let layout = Layout::new(folder.path(), shape);
        Self::new(layout, tools, Some(folder))
    }

    /// A cluster that another process started.
    pub(crate) fn attach(layout: Layout, tools: Tools) -> Self {
        Self::new(layout, tools, None)
    }

    fn new(layout: Layout, tools: Tools, folder: Option<Folder>) -> Self {
        Self {
            layout,
            tools,
            state: Mutex::new(State {
                folder,
                closing: false,
                children: Vec::new(),
            }),
        }
    }

    /// Clears the folder and writes the files of the cluster; no process yet.
    pub(crate) fn lay_out(&self) -> Result<()> {
        let state = self.state();
        let folder = state.folder.as_ref().ok_or_else(closing)?;
        folder.empty()?;
        self.layout.create()?;
        identity::create(&self.layout)?;
        components::write_configuration(&self.layout, &self.tools)
    }

    /// Ends what was started, and passes the directory on to another attempt with other ports.
    pub(crate) fn renew(&self) -> Result<Self> {
        let mut state = self.state();
        state.folder.as_ref().ok_or_else(closing)?.empty()?;
        state.reap()?;
        state.closing = true;
        let folder = state.folder.take().ok_or_else(closing)?;
        Ok(Self::own(folder, self.tools.clone(), self.layout.nodes().to_vec()))
    }

    /// Starts `component` and returns at once.
    pub(crate) fn spawn(&self, component: Component) -> Result<()> {
        let program = component.program(&self.layout, &self.tools)?;
        let mut state = self.state();
        let child = self.spawn_in(&state, component.name(), &program)?;
        state.children.push((component, child));
        Ok(())
    }

    /// Starts a program that is no component, under a name of its own, and leaves it to the caller to watch.
    pub(crate) fn spawn_other(&self, name: &str, program: &Path, arguments: &[String]) -> Result<Child> {
        let program = Program::new(program, arguments.to_vec());
        self.spawn_in(&self.state(), name, &program)
    }

    /// The state stays locked from the check to the start, so that no process starts unnoticed by tear-down.
    fn spawn_in(&self, state: &State, name: &str, program: &Program) -> Result<Child> {
        if state.closing {
            return Err(Error::Closing(name.to_owned()));
        }
        process::spawn(self.layout.dir(), name, program, &self.layout.log(name))
    }

    /// Ends `component` and waits until it is gone.
    pub(crate) fn stop(&self, component: Component) -> Result<()> {
        let mut state = self.state();
        process::end(self.layout.dir(), |process| process.component == component.name())?;
        for (_, mut child) in state.children.extract_if(.., |(other, _)| *other == component) {
            child.wait().map_err(Error::io("wait for", component.name()))?;
        }
        Ok(())
    }

    /// Fails if a component that this process started has ended.
    pub(crate) fn check_alive(&self) -> Result<()> {
        for (component, child) in &mut self.state().children {
            if let Some(status) = child.try_wait().map_err(Error::io("wait for", component.name()))? {
                let log = self.layout.log_tail(*component);
                return Err(Error::Exited {
                    name: component.name(),
                    status,
                    log,
                });
            }
        }
        Ok(())
    }

    /// Gives up ownership: the processes stay, for others to find by their mark.
    pub(crate) fn release(&self) {
        self.state().folder = None;
    }

    /// Removes every trace of the cluster if this process owns it. A second caller waits for the first, so that the
    /// process does not exit while its clusters are half removed.
    pub(crate) fn tear_down(&self) -> Result<()> {
        let mut state = self.state();
        let Some(folder) = state.folder.take() else {
            return Ok(());
        };
        state.closing = true;
        folder.delete()?;
        state.reap()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not keep the tear-down from running.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Waits for the children, which have been ended.
    fn reap(&mut self) -> Result<()> {
        for (component, mut child) in self.children.drain(..) {
            child.wait().map_err(Error::io("wait for", component.name()))?;
        }
        Ok(())
    }
}

fn closing() -> Error {
    Error::Closing("the control plane".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::folder::private_tempdir;

    #[test]
    fn what_is_torn_down_is_not_laid_out_again() {
        let base = private_tempdir();
        let running = || {
            let folder = Folder::fresh(base.path()).expect("a folder");
            Running::own(folder, Tools::from_env().expect("a cache folder is set"), Vec::new())
        };
        let early = running();
        early.tear_down().expect("a signal that comes first");
        assert!(matches!(early.lay_out(), Err(Error::Closing(_))));
        assert!(matches!(early.renew(), Err(Error::Closing(_))));
        assert!(!early.layout.dir().exists());

        let late = running();
        late.lay_out().expect("lay out");
        assert!(late.layout.pki("ca.key").exists());
        late.tear_down().expect("a signal that comes later");
        assert!(!late.layout.dir().exists());
    }

    #[test]
    fn another_try_has_the_same_folder_and_its_own_files() {
        let base = private_tempdir();
        let folder = Folder::fresh(base.path()).expect("a folder");
        let first = Running::own(folder, Tools::from_env().expect("a cache folder is set"), Vec::new());
        first.lay_out().expect("lay out");
        let mut sleeper = first
            .spawn_other("sleeper", Path::new("sleep"), &["60".to_owned()])
            .expect("start sleep");
        let second = first.renew().expect("renew");
        sleeper.wait().expect("it was ended");
        assert!(matches!(
            first.spawn_other("late", Path::new("sleep"), &[]),
            Err(Error::Closing(_))
        ));
        first.tear_down().expect("nothing to do");
        second.lay_out().expect("lay out over the remains");
        assert_eq!(second.layout.dir(), first.layout.dir());
        assert_ne!(second.layout.ports(), first.layout.ports());
        second.tear_down().expect("tear down");
        assert!(!second.layout.dir().exists());
    }
}
