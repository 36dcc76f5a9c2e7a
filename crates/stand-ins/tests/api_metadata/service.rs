//! The program under test, as a child process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;
use stand_ins::loopback::free_address;
use tempfile::TempDir;
use testkit::program::Program;
use testkit::wait::eventually_async;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

pub(crate) const ACCOUNT: &str = "01KA3V7J5T9PZ4X6Q8W2E0R1Y3";
pub(crate) const USER: &str = "firebolt";
pub(crate) const PASSWORD: &str = "0f1e2d3c4b5a69788796a5b4";
pub(crate) const DATABASE: &str = "firebolt_metadata";

/// What it logs before it tries once more to reach the database at the start.
pub(crate) const RETRY: &str = "cannot open the database yet";

/// How long anything may take. It takes a second; a machine can be very busy.
const LIMIT: Duration = Duration::from_mins(2);
/// How long to wait for one answer before asking again.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How the program gets to know the password.
pub(crate) enum Password {
    Is(&'static str),
    HasNoFile,
    HasNoVariable,
}

/// What the program is started with. Tests change what they are about.
pub(crate) struct Setup {
    pub(crate) config_name: &'static str,
    pub(crate) config: String,
    pub(crate) password: Password,
    pub(crate) arguments: Vec<&'static str>,
    /// The name that the program is called by.
    pub(crate) program: &'static str,
    pub(crate) listen: SocketAddr,
}

impl Setup {
    /// All as it should be, in XML, with the database at `postgres`.
    pub(crate) fn xml(postgres: SocketAddr) -> Self {
        let listen = free_address().expect("a free address");
        Self {
            config_name: "config.xml",
            config: xml(listen, postgres),
            password: Password::Is(PASSWORD),
            arguments: Vec::new(),
            program: "dedicated-pensieve",
            listen,
        }
    }

    /// The same in YAML.
    pub(crate) fn yaml(postgres: SocketAddr) -> Self {
        let setup = Self::xml(postgres);
        Self {
            config_name: "config.yaml",
            config: yaml(setup.listen, postgres),
            ..setup
        }
    }

    /// The configuration with one of its texts replaced.
    pub(crate) fn with(mut self, from: &str, to: &str) -> Self {
        assert!(self.config.contains(from), "the configuration says {from}");
        self.config = self.config.replacen(from, to, 1);
        self
    }

    pub(crate) fn start(&self) -> Service {
        let mut launch = Launch::new(self.listen);
        let (config, username, password) = (Path::new("/config"), Path::new("/username"), Path::new("/password"));
        let config = config.join(self.config_name);
        launch.write(&config, &self.config);
        launch.write(username, USER);
        let text = |path: &Path| path.to_str().expect("a path of ours").to_owned();
        let mut environment = BTreeMap::from([("POSTGRES_USERNAME_FILE".to_owned(), text(username))]);
        match self.password {
            Password::Is(value) => {
                launch.write(password, value);
                environment.insert("POSTGRES_PASSWORD_FILE".to_owned(), text(password));
            }
            Password::HasNoFile => {
                environment.insert("POSTGRES_PASSWORD_FILE".to_owned(), text(password));
            }
            Password::HasNoVariable => {}
        }
        let more = self.arguments.iter().map(|argument| (*argument).to_owned());
        let words = [format!("/{}", self.program), "--config".to_owned(), text(&config)];
        launch.start(words.into_iter().chain(more), environment)
    }
}

/// A start of the program with files of its own. It has no root of its own: absolute paths are below a folder.
pub(crate) struct Launch {
    folder: TempDir,
    listen: SocketAddr,
}

impl Launch {
    pub(crate) fn new(listen: SocketAddr) -> Self {
        let folder = tempfile::tempdir().expect("create a folder");
        Self { folder, listen }
    }

    /// Where an absolute path is.
    fn place(&self, path: &Path) -> PathBuf {
        self.folder
            .path()
            .join(path.strip_prefix("/").expect("an absolute path"))
    }

    pub(crate) fn write(&mut self, path: &Path, text: &str) {
        let path = self.place(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("create a folder");
        fs::write(path, text).expect("write a file");
    }

    /// Starts the program by the name that comes first in its words, and with no other environment than this.
    pub(crate) fn start(
        self,
        words: impl IntoIterator<Item = String>,
        environment: BTreeMap<String, String>,
    ) -> Service {
        let placed = |word: String| match Path::new(&word) {
            path if path.is_absolute() => self.place(path).into_os_string(),
            _ => OsString::from(word),
        };
        let mut words = words.into_iter().map(placed);
        let program = words.next().expect("a program");
        symlink(env!("CARGO_BIN_EXE_firebolt-stand-in"), &program).expect("create a link");
        // The program must not outlive the test, however that ends.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(environment.into_iter().map(|(name, value)| (name, placed(value))));
        Service {
            program: Program::start("service", &mut command),
            client: client(self.listen),
            _folder: self.folder,
        }
    }
}

/// The running program.
pub(crate) struct Service {
    // Before the folder, so that it ends before its files go.
    program: Program,
    pub(crate) client: HealthClient<Channel>,
    _folder: TempDir,
}

impl Service {
    /// What it says about itself, if it answers.
    pub(crate) async fn status(&mut self) -> Option<ServingStatus> {
        let answer = timeout(ANSWER_LIMIT, self.client.check(whole_server())).await;
        Some(answer.ok()?.ok()?.into_inner().status())
    }

    /// Waits until it says so about itself.
    pub(crate) async fn becomes(&mut self, status: ServingStatus) {
        let is_status = async || {
            self.program.assert_alive();
            (self.status().await == Some(status)).then_some(())
        };
        eventually_async(format!("the status is {status:?}"), LIMIT, is_status).await;
    }

    /// Waits until it ends by itself without ever having claimed to be healthy. Returns its exit code and its log.
    pub(crate) async fn ends_unhealthy(&mut self) -> (Option<i32>, String) {
        let ended = async || {
            assert_ne!(self.status().await, Some(ServingStatus::Serving));
            self.program.ended()
        };
        let status = eventually_async("the program ends", LIMIT, ended).await;
        (status.code(), self.program.log())
    }

    pub(crate) fn terminate(&self) {
        self.program.signal(Signal::TERM);
    }

    /// Waits until it has ended.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.program.wait()
    }

    /// Waits until its log holds the text.
    pub(crate) async fn says(&self, text: &str) {
        let says = async || self.program.log().contains(text).then_some(());
        eventually_async(format!("the log contains {text:?}"), LIMIT, says).await;
    }
}

/// The question about the server as a whole, which the kubelet asks too.
pub(crate) fn whole_server() -> HealthCheckRequest {
    HealthCheckRequest { service: String::new() }
}

fn client(address: SocketAddr) -> HealthClient<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    HealthClient::new(endpoint.connect_lazy())
}

/// The folder of the Debian packages.
pub(crate) fn debian() -> PathBuf {
    let tools = localkube::tools::Tools::from_env().expect("the cache of tools");
    let packages = tools.build_folder(localkube::tools::Tool::Debian);
    Path::new(&packages).join("root")
}

fn xml(listen: SocketAddr, postgres: SocketAddr) -> String {
    let (host, port) = (listen.ip(), listen.port());
    let (postgres_host, postgres_port) = (postgres.ip(), postgres.port());
    format!(
        r#"<?xml version="1.0"?>
<config>
  <pensieve_lite>
    <default_account_id>{ACCOUNT}</default_account_id>
    <host>{host}</host>
    <port>{port}</port>
    <server_threads>0</server_threads>
    <log_level>information</log_level>
    <metadata_storage>
      <postgresql>
        <host>{postgres_host}</host>
        <port>{postgres_port}</port>
        <database>{DATABASE}</database>
        <schema>public</schema>
        <keepalive>
          <enabled>1</enabled>
          <idle_sec>120</idle_sec>
          <interval_sec>30</interval_sec>
          <count>5</count>
        </keepalive>
        <connect_timeout_sec>5</connect_timeout_sec>
      </postgresql>
      <garbage_collection>
        <enabled>true</enabled>
        <interval_ms>3600000</interval_ms>
        <time_horizon_sec>86400</time_horizon_sec>
      </garbage_collection>
    </metadata_storage>
  </pensieve_lite>
</config>
"#
    )
}

fn yaml(listen: SocketAddr, postgres: SocketAddr) -> String {
    let (host, port) = (listen.ip(), listen.port());
    let (postgres_host, postgres_port) = (postgres.ip(), postgres.port());
    format!(
        r#"pensieve_lite:
  default_account_id: "{ACCOUNT}"
  host: "{host}"
  port: {port}
  server_threads: 0
  log_level: "information"
  metadata_storage:
    postgresql:
      host: "{postgres_host}"
      port: {postgres_port}
      database: "{DATABASE}"
      schema: "public"
      keepalive:
        enabled: 1
        idle_sec: 120
        interval_sec: 30
        count: 5
      connect_timeout_sec: 5
    garbage_collection:
      enabled: true
      interval_ms: 3600000
      time_horizon_sec: 86400
"#
    )
}
