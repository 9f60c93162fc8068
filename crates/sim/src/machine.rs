//! Machines: what a simulation needs to know of one, read from a TOML file in
//! which every number says where it comes from.

use std::{
    ffi::OsStr,
    fmt,
    fs::File,
    io::{self, Read},
    ops::RangeInclusive,
    path::Path,
};

use serde::{Deserialize, Serialize};
use toml::Spanned;

/// The machines that come with the simulator: name and file.
const PRESETS: &[(&str, &str)] = &[
    (
        "arm64-2s56c224t",
        include_str!("../machines/arm64-2s56c224t.toml"),
    ),
    ("x86-32c", include_str!("../machines/x86-32c.toml")),
    ("x86-2s36c", include_str!("../machines/x86-2s36c.toml")),
    ("x86-72c", include_str!("../machines/x86-72c.toml")),
    ("x86-60c", include_str!("../machines/x86-60c.toml")),
    ("x86-2s256c", include_str!("../machines/x86-2s256c.toml")),
];

/// A number, and the document or the measurement that it comes from, or why it
/// is estimated so.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    value: T,
    source: String,
}

/// A parameter of a machine, and where its file has it.
pub type Param<T = f64> = Spanned<Sourced<T>>;

/// A machine's file. Times are in nanoseconds unless the name says otherwise.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct MachineFile {
    name: Spanned<String>,
    about: String,
    topology: TopologyFile,
    cpu: CpuFile,
    memory: MemoryFile,
    scheduler: SchedulerFile,
    user_space: Option<UserSpaceFile>,
    kernel: Option<KernelFile>,
    quota: Option<QuotaFile>,
    hypervisor: Option<HypervisorFile>,
}

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct TopologyFile {
    sockets: Param<u32>,
    clusters_per_socket: Param<u32>,
    cores_per_cluster: Param<u32>,
    threads_per_core: Param<u32>,
}

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct CpuFile {
    work_unit: Param,
    locked: Param,
    poll: Param,
    poll_share: Param,
    event_wake: Option<Param>,
    event_stream: Option<Param>,
    clock: Param,
    smt_speed: Param<Vec<f64>>,
}

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct MemoryFile {
    hit: Param,
    cluster: Param,
    socket: Param,
    remote: Param,
    memory: Param,
    upgrade: Param,
    occupancy: Param,
}

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct SchedulerFile {
    tick: Param,
    slice: Param,
    switch: Param,
    park: Param,
    unpark: Param,
    wake: Param,
    deep_after: Param,
    deep_wake: Param,
    yields: Param,
    quiesce: Param,
}

/// For a machine whose tasks are those of user space.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct UserSpaceFile {
    ask: Param,
    off_cpu_seen: Param,
    spin_budget: Param,
}

/// For a machine whose tasks make system calls.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct KernelFile {
    system_call: Param,
    walk: Param,
}

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct QuotaFile {
    runtime: Param,
    period: Param,
}

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct HypervisorFile {
    steal_every: Param,
    steal_for: Param,
}

/// A time in picoseconds, or a moment: so long after the start.
pub type Picos = u64;

/// A machine. All times are in picoseconds.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Machine {
    /// What `--machine` calls it.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// Sockets.
    pub sockets: usize,
    /// Groups of cores with a last-level cache of their own, in a socket.
    pub clusters_per_socket: usize,
    /// Cores in a cluster.
    pub cores_per_cluster: usize,
    /// Hardware threads of a core.
    pub threads_per_core: usize,
    /// Every time and share.
    pub costs: Costs,
    /// A limit to the CPU time of all tasks together that it is for.
    pub quota: Option<Quota>,
    /// A hypervisor that takes CPUs away.
    pub hypervisor: Option<Hypervisor>,
}

/// What things cost on a machine.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Costs {
    /// A work unit, on a core of one's own.
    pub work_unit: Picos,
    /// An atomic read-modify-write of a line in one's own cache.
    pub locked: Picos,
    /// From one look of a polling spinner to the next.
    pub poll: Picos,
    /// The share of a core that a polling spinner competes for: 1 is that of a
    /// task that computes.
    pub poll_share: f64,
    /// From the change of a line to the next instruction of a task that waits
    /// for it as an event; `None` where the hardware cannot wait so.
    pub event_wake: Option<Picos>,
    /// The longest that a wait for an event lasts.
    pub event_stream: Picos,
    /// Reading the clock.
    pub clock: Picos,
    /// The speed of each of 1, 2, ... threads of a core that compute at once.
    pub smt_speed: Vec<f64>,
    /// A load or store of a line in one's own cache, and the instructions
    /// around it.
    pub hit: Picos,
    /// A line that comes from a core of the same cluster.
    pub cluster: Picos,
    /// A line that comes from another cluster of the socket.
    pub socket: Picos,
    /// A line that comes from another socket.
    pub remote: Picos,
    /// A line that comes from memory.
    pub memory: Picos,
    /// What it takes to have other cores give up their copies of a line, as a
    /// share of a transfer from the farthest.
    pub upgrade: f64,
    /// How long a line that is being read is busy for each reader.
    pub occupancy: Picos,
    /// Between two ticks.
    pub tick: Picos,
    /// How long a fair task runs when others wait for its CPU.
    pub slice: Picos,
    /// From one task to another on a CPU.
    pub switch: Picos,
    /// The way into sleep, on the sleeper's CPU.
    pub park: Picos,
    /// Waking a sleeper, on the waker's CPU.
    pub unpark: Picos,
    /// From a wake-up to the sleeper's first instruction on an idle CPU.
    pub wake: Picos,
    /// An idle CPU sleeps deeply after so long.
    pub deep_after: Picos,
    /// As `wake`, for a CPU that sleeps deeply.
    pub deep_wake: Picos,
    /// A yield that finds nobody else to run.
    pub yields: Picos,
    /// [`Platform::quiesce`](lockyard_core::Platform::quiesce).
    pub quiesce: Picos,
    /// What user space does not have of a kernel; `None` in a kernel.
    pub user_space: Option<UserSpace>,
    /// What system calls and page tables cost; `None` where that is nothing.
    pub kernel: Option<Kernel>,
}

impl Costs {
    /// How late a spinner learns that a task is off its CPU.
    pub(crate) fn off_cpu_seen(&self) -> Picos {
        self.user_space.map_or(0, |user| user.off_cpu_seen)
    }
}

/// How spinners of user space differ from those of a kernel, which see at once
/// and for nothing whether a task runs and whether they must reschedule.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct UserSpace {
    /// What a look takes longer when the spinner asks whether a task runs and
    /// whether it should stop.
    pub ask: Picos,
    /// How late a spinner learns that a task is off its CPU.
    pub off_cpu_seen: Picos,
    /// How long a task spins at a stretch.
    pub spin_budget: Picos,
}

/// What a futex's system call costs besides its accesses of shared memory.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Kernel {
    /// A system call that does nothing.
    pub system_call: Picos,
    /// Finding the page that an address maps to.
    pub walk: Picos,
}

/// At most so much CPU time in each period (the kernel's CFS_BANDWIDTH).
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Quota {
    /// The CPU time.
    pub runtime: Picos,
    /// The period.
    pub period: Picos,
}

/// Each CPU stops now and then.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Hypervisor {
    /// The mean time between two stops.
    pub steal_every: Picos,
    /// How long a stop lasts.
    pub steal_for: Picos,
}

/// A machine file that is refused: the file, the line, the key, and why.
#[derive(Debug)]
pub struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl Machine {
    /// The names of the machines that come with the simulator.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The machine of this name, or of the file at this path.
    ///
    /// # Errors
    /// There is neither, or the file is malformed.
    pub fn find(name: impl AsRef<OsStr>) -> Result<Self, Refused> {
        let name = name.as_ref();
        if let Some((preset, text)) = PRESETS.iter().find(|(preset, _)| *preset == name) {
            return Self::parse(preset, text);
        }
        let shown = name.display().to_string();
        let text = text(name.as_ref()).map_err(|why| {
            let presets: Vec<_> = Self::presets().collect();
            Refused(format!(
                "no machine '{shown}' ({why}): use a machine file or one of {}",
                presets.join(", ")
            ))
        })?;
        Self::parse(&shown, &text)
    }

    /// The machine that `text` describes; `file` is for the errors.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(file: &str, text: &str) -> Result<Self, Refused> {
        let reader = Reader { file, text };
        let parsed: MachineFile = toml::from_str(text).map_err(|error| {
            let what = error.message().replace('\n', " ");
            reader.refuse(error.span().map_or(0, |span| span.start), &what)
        })?;
        reader.machine(&parsed)
    }

    /// The machine with other numbers of cores, all in one cluster, and of
    /// threads of each, which do not slow each other down more than they did.
    #[must_use]
    pub fn resized(mut self, cores: usize, threads: usize) -> Self {
        (self.sockets, self.clusters_per_socket) = (1, 1);
        self.cores_per_cluster = cores;
        self.with_threads_per_core(threads)
    }

    /// The same sockets and cores, but with another number of threads of each,
    /// which do not slow each other down more than they did.
    #[must_use]
    pub fn with_threads_per_core(mut self, threads: usize) -> Self {
        self.threads_per_core = threads;
        let last = self.costs.smt_speed.last().copied().unwrap_or(1.0);
        self.costs.smt_speed.resize(threads, last);
        self
    }

    /// Its cores.
    pub fn cores(&self) -> usize {
        self.sockets * self.clusters_per_socket * self.cores_per_cluster
    }

    /// Its CPUs, as a system counts them: hardware threads.
    pub fn cpus(&self) -> usize {
        self.cores() * self.threads_per_core
    }
}

/// The most bytes that a machine's file may have.
const MAX_BYTES: u64 = 1 << 20;

/// What is in a machine's file. Nothing but a plain file is read: a terminal or a
/// pipe might never end.
fn text(path: &Path) -> io::Result<String> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("not a plain file"));
    }
    let mut text = String::new();
    let length = File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_string(&mut text)?;
    match length as u64 {
        0..=MAX_BYTES => Ok(text),
        _ => Err(io::Error::other("over 1 MiB")),
    }
}

/// The most CPUs that a machine may have.
const MAX_CPUS: u32 = 8_192;

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

impl Reader<'_> {
    /// Names the line at `offset` and the key that stands there.
    fn refuse(&self, offset: usize, why: &str) -> Refused {
        let before = &self.text[..offset.min(self.text.len())];
        let number = before.matches('\n').count();
        let line = self.text.lines().nth(number).unwrap_or_default();
        let key = line.split('=').next().unwrap_or_default().trim();
        Refused(format!(
            "{}:{}: {}{why}",
            self.file,
            number + 1,
            if key.is_empty() {
                String::new()
            } else {
                format!("{key}: ")
            }
        ))
    }

    fn checked<'p, T>(&self, param: &'p Param<T>) -> Result<&'p T, Refused> {
        let Sourced { value, source } = param.get_ref();
        if source.trim().is_empty() {
            let why =
                "its source is empty: name a document, a measurement or why it is an estimate";
            return Err(self.refuse(param.span().start, why));
        }
        Ok(value)
    }

    fn number(&self, param: &Param, range: RangeInclusive<f64>) -> Result<f64, Refused> {
        let value = *self.checked(param)?;
        if range.contains(&value) {
            return Ok(value);
        }
        let why = format!("{value:?} is not from {} to {}", range.start(), range.end());
        Err(self.refuse(param.span().start, &why))
    }

    fn count(&self, param: &Param<u32>) -> Result<u32, Refused> {
        let value = *self.checked(param)?;
        if (1..=MAX_CPUS).contains(&value) {
            return Ok(value);
        }
        let why = format!("{value} is not a whole number from 1 to {MAX_CPUS}");
        Err(self.refuse(param.span().start, &why))
    }

    /// At most a second.
    fn time(&self, param: &Param) -> Result<Picos, Refused> {
        Ok(picos(self.number(param, 0.0..=1e9)?))
    }

    /// From a microsecond to a minute.
    fn period(&self, param: &Param) -> Result<Picos, Refused> {
        Ok(picos(self.number(param, 1e3..=60e9)?))
    }

    /// A time that must pass: at least a picosecond, lest nothing ever does.
    fn step(&self, param: &Param) -> Result<Picos, Refused> {
        Ok(picos(self.number(param, 0.001..=1e9)?))
    }

    fn name(&self, name: &Spanned<String>) -> Result<String, Refused> {
        let text = name.get_ref();
        if text.trim().is_empty() || text.contains(char::is_control) {
            let why = "it is empty or has control characters: name the machine";
            return Err(self.refuse(name.span().start, why));
        }
        Ok(text.clone())
    }

    fn machine(&self, file: &MachineFile) -> Result<Machine, Refused> {
        let topology = &file.topology;
        let counts = [
            &topology.sockets,
            &topology.clusters_per_socket,
            &topology.cores_per_cluster,
            &topology.threads_per_core,
        ];
        let mut sizes = [0; 4];
        let mut cpus = 1u64;
        for (size, param) in sizes.iter_mut().zip(counts) {
            *size = self.count(param)? as usize;
            cpus *= *size as u64;
            if cpus > u64::from(MAX_CPUS) {
                let why = format!("with it there are more than {MAX_CPUS} CPUs");
                return Err(self.refuse(param.span().start, &why));
            }
        }
        let [
            sockets,
            clusters_per_socket,
            cores_per_cluster,
            threads_per_core,
        ] = sizes;
        Ok(Machine {
            name: self.name(&file.name)?,
            about: file.about.clone(),
            sockets,
            clusters_per_socket,
            cores_per_cluster,
            threads_per_core,
            costs: self.costs(file, threads_per_core)?,
            quota: file.quota.as_ref().map(|q| self.quota(q)).transpose()?,
            hypervisor: file
                .hypervisor
                .as_ref()
                .map(|h| self.hypervisor(h))
                .transpose()?,
        })
    }

    fn costs(&self, file: &MachineFile, threads: usize) -> Result<Costs, Refused> {
        let MachineFile {
            cpu,
            memory,
            scheduler,
            ..
        } = file;
        let event_wake = cpu.event_wake.as_ref();
        let event_stream = cpu.event_stream.as_ref();
        Ok(Costs {
            work_unit: self.step(&cpu.work_unit)?,
            locked: self.step(&cpu.locked)?,
            poll: self.step(&cpu.poll)?,
            poll_share: self.number(&cpu.poll_share, 0.0..=1.0)?,
            event_wake: event_wake.map(|param| self.time(param)).transpose()?,
            event_stream: event_stream
                .map(|param| self.period(param))
                .transpose()?
                .unwrap_or(picos(1e5)),
            clock: self.time(&cpu.clock)?,
            smt_speed: self.smt_speed(&cpu.smt_speed, threads)?,
            hit: self.step(&memory.hit)?,
            cluster: self.step(&memory.cluster)?,
            socket: self.step(&memory.socket)?,
            remote: self.step(&memory.remote)?,
            memory: self.step(&memory.memory)?,
            upgrade: self.number(&memory.upgrade, 0.0..=1.0)?,
            occupancy: self.time(&memory.occupancy)?,
            tick: self.period(&scheduler.tick)?,
            slice: self.period(&scheduler.slice)?,
            switch: self.time(&scheduler.switch)?,
            park: self.time(&scheduler.park)?,
            unpark: self.time(&scheduler.unpark)?,
            wake: self.time(&scheduler.wake)?,
            deep_after: self.time(&scheduler.deep_after)?,
            deep_wake: self.time(&scheduler.deep_wake)?,
            yields: self.step(&scheduler.yields)?,
            quiesce: self.time(&scheduler.quiesce)?,
            user_space: file
                .user_space
                .as_ref()
                .map(|user| self.user_space(user))
                .transpose()?,
            kernel: file
                .kernel
                .as_ref()
                .map(|kernel| self.kernel(kernel))
                .transpose()?,
        })
    }

    fn kernel(&self, file: &KernelFile) -> Result<Kernel, Refused> {
        Ok(Kernel {
            system_call: self.time(&file.system_call)?,
            walk: self.time(&file.walk)?,
        })
    }

    fn user_space(&self, file: &UserSpaceFile) -> Result<UserSpace, Refused> {
        Ok(UserSpace {
            ask: self.time(&file.ask)?,
            off_cpu_seen: self.time(&file.off_cpu_seen)?,
            spin_budget: self.step(&file.spin_budget)?,
        })
    }

    /// A speed for each number of threads at work: 1 for one, and then less.
    fn smt_speed(&self, param: &Param<Vec<f64>>, threads: usize) -> Result<Vec<f64>, Refused> {
        let speeds = self.checked(param)?;
        let falls = speeds
            .windows(2)
            .all(|pair| 0.0 < pair[1] && pair[1] <= pair[0]);
        if speeds.len() == threads && speeds[0] == 1.0 && falls {
            return Ok(speeds.clone());
        }
        let why = format!("use {threads} speeds, for 1 to {threads} threads: 1.0, then never more");
        Err(self.refuse(param.span().start, &why))
    }

    fn quota(&self, file: &QuotaFile) -> Result<Quota, Refused> {
        Ok(Quota {
            runtime: self.period(&file.runtime)?,
            period: self.period(&file.period)?,
        })
    }

    fn hypervisor(&self, file: &HypervisorFile) -> Result<Hypervisor, Refused> {
        Ok(Hypervisor {
            steal_every: self.period(&file.steal_every)?,
            steal_for: self.period(&file.steal_for)?,
        })
    }
}

/// Picoseconds of so many nanoseconds.
fn picos(nanos: f64) -> Picos {
    (nanos * 1e3).round() as Picos
}
