//! A cluster as processes: started, watched, stopped and, by its owner, torn down.

use std::process::Child;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::components::{self, Component};
use crate::folder::Folder;
use crate::layout::Layout;
use crate::ports::Ports;
use crate::tools::Tools;
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
    /// Prepares a new cluster in a folder that this process owns: files only, no process yet.
    pub(crate) fn prepare(folder: Folder, tools: Tools) -> Result<Self> {
        match lay_out(&folder) {
            Ok(layout) => Ok(Self::new(layout, tools, Some(folder))),
            Err(error) => {
                folder.delete()?;
                Err(error)
            }
        }
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

    /// Starts `component` and returns at once.
    pub(crate) fn spawn(&self, component: Component) -> Result<()> {
        let program = self.tools.binary(component.binary())?;
        let arguments = component.arguments(&self.layout);
        let log = self.layout.log(component);
        let mut state = self.state();
        if state.closing {
            return Err(Error::Closing(component.name()));
        }
        let child = process::spawn(self.layout.dir(), component.name(), &program, &arguments, &log)?;
        state.children.push((component, child));
        Ok(())
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

    /// Removes every trace of the cluster if this process owns it. A second caller waits for the first, so that nobody
    /// leaves the process while its clusters are half removed.
    pub(crate) fn tear_down(&self) -> Result<()> {
        let mut state = self.state();
        let Some(folder) = state.folder.take() else {
            return Ok(());
        };
        state.closing = true;
        folder.delete()?;
        for (component, mut child) in state.children.drain(..) {
            child.wait().map_err(Error::io("wait for", component.name()))?;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not keep the tear-down from running.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lay_out(folder: &Folder) -> Result<Layout> {
    folder.empty()?;
    let layout = Layout::create(folder.path(), Ports::choose())?;
    identity::create(&layout)?;
    components::write_configuration(&layout)?;
    Ok(layout)
}
