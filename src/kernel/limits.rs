//! Every default and cap, with its unit and its reason.

use std::time::Duration;

/// Longest message a host may send. Large enough for several base64 images in one prompt.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Requests of one host in flight at once; more are answered `server_busy`.
pub const MAX_IN_FLIGHT: usize = 256;
/// Messages waiting for one host before live events are dropped.
pub const HOST_QUEUE_MESSAGES: usize = 4096;
/// Bytes waiting for one host before live events are dropped.
pub const HOST_QUEUE_BYTES: usize = 16 << 20;
/// Unwritten replies of one host above which reading from it pauses.
pub const HOST_REPLY_BYTES: usize = 16 << 20;

/// From the end of input, a signal or `shutdown` to the exit of a native server.
pub const SHUTDOWN: Duration = Duration::from_secs(5);
/// The same for ACP: its client libraries kill a server that takes longer.
pub const ACP_SHUTDOWN: Duration = Duration::from_secs(2);
/// How long a session in which nothing happens stays loaded in a daemon.
pub const SESSION_UNLOAD_IDLE: Duration = Duration::from_secs(1800);
/// How long a daemon that `attach` started stays with neither hosts nor sessions.
pub const DAEMON_IDLE_EXIT: Duration = Duration::from_secs(1800);
/// Connections to a daemon at once. Chosen: far more than a person has windows; each may hold a queue.
pub const DAEMON_CONNECTIONS: usize = 256;
/// What a host that comes by WebSocket may take to open the connection.
pub const WEBSOCKET_HANDSHAKE: Duration = Duration::from_secs(10);
/// What a running call gets after a cancel before it is abandoned.
pub const TOOL_CANCEL_GRACE: Duration = Duration::from_secs(2);
/// What a command's processes get between TERM and KILL.
pub const PROCESS_GRACE: Duration = Duration::from_secs(5);
/// The part of that grace a cancelled call waits for.
pub const PROCESS_GRACE_IN_CALL: Duration = Duration::from_secs(1);

/// How long a command may run where the call names no time.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a command of the user's own may run before it goes on in the background.
pub const USER_COMMAND_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest time a call may name.
pub const COMMAND_TIMEOUT_MAX: Duration = Duration::from_secs(300);
/// What the model sees of a long output: so many characters of its beginning …
pub const COMMAND_HEAD_CHARS: usize = 20_000;
/// … and so many of its end, where failures are reported.
pub const COMMAND_TAIL_CHARS: usize = 30_000;
/// Characters of one line of output.
pub const COMMAND_LINE_CHARS: usize = 2000;
/// Raw output of a running command kept in memory; a command that wrote no more has no log on disk until it is needed.
pub const COMMAND_RING_BYTES: usize = 1 << 20;
/// Output waiting to be written to a log; more makes the command wait.
pub const COMMAND_LOG_QUEUE_BYTES: usize = 256 << 10;
/// Output of one call that is shown while it runs; after that only its size is.
pub const COMMAND_LIVE_BYTES: usize = 1 << 20;

/// Detached tasks of one session that run at once, where the configuration says nothing.
pub const TASKS_PER_SESSION: usize = 64;
/// Detached tasks of all sessions together.
pub const TASKS_PER_PROCESS: usize = 1024;
/// Time limit of a detached command, where neither call nor configuration name one.
pub const TASK_TIMEOUT: Duration = Duration::from_secs(600);
/// The longest time limit a call may give to a detached command.
pub const TASK_TIMEOUT_MAX: Duration = Duration::from_secs(86_400);
/// One log on disk: a quarter of it holds the beginning of an output, the rest the end; what lies between is dropped.
pub const TASK_LOG_BYTES: u64 = 64 << 20;
/// Logs of all tasks of one session; the oldest make room.
pub const TASK_LOGS_BYTES: u64 = 1 << 30;
/// Turns of one `longshore run`. Chosen: a stop for runs that keep themselves going.
pub const HEADLESS_MAX_TURNS: u32 = 100_000;
/// The end of a task's output that goes with its end into the journal.
pub const TASK_END_TAIL_BYTES: usize = 4 << 10;
/// The end of its output in a notice that it has ended.
pub const TASK_NOTICE_TAIL_BYTES: usize = 3000;
/// Notices of one turn together; what comes beyond it is told without its output. Chosen: the share of a context that a
/// crowd of ends is worth.
pub const TASK_NOTICES_BYTES: usize = 64 << 10;
/// Output that the task tools and `task/output` show at once where no size is named; the most the tools show.
pub const TASK_OUTPUT_BYTES: usize = 32 << 10;
/// The most `task/output` gives at once.
pub const TASK_OUTPUT_MAX_BYTES: usize = 256 << 10;
/// The longest `task/output` waits.
pub const TASK_OUTPUT_WAIT: Duration = Duration::from_secs(600);

/// Turns waiting in one session.
pub const MAX_QUEUED_TURNS: usize = 64;
/// Prompts waiting in one ACP session.
pub const MAX_QUEUED_PROMPTS: usize = 8;
/// Calls of one agent running at once.
pub const MAX_PARALLEL_CALLS: usize = 16;

/// Model requests of one step, the first included.
pub const MAX_ATTEMPTS: u32 = 10;
/// First pause before a retry; doubled each time, up to [`RETRY_MAX`], plus up to a quarter at random.
pub const RETRY_BASE: Duration = Duration::from_millis(500);
/// Longest pause that is ours to choose.
pub const RETRY_MAX: Duration = Duration::from_secs(32);
/// A provider that asks for a longer wait than this has locked us out: the turn fails at once.
pub const RETRY_SERVER_MAX: Duration = Duration::from_secs(300);
/// Broken streams of one step before it fails.
pub const MAX_STREAM_RECONNECTS: u32 = 5;
/// Requests of one step whose answers could not be read: once more may help, often does not.
pub const MAX_DECODE_ATTEMPTS: u32 = 2;
/// One event of a provider's stream. Far above any real one; bounds what a broken server can make us hold.
pub const SSE_EVENT_BYTES: usize = 32 << 20;
/// A provider's answer that is not a stream, and the body of an error.
pub const RESPONSE_BODY_BYTES: usize = 32 << 20;
/// What is kept of a provider's error body.
pub const ERROR_BODY_BYTES: usize = 2 << 10;
/// Provider: until the connection stands.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Provider: until the response's headers are there.
pub const HEADERS_TIMEOUT: Duration = Duration::from_secs(300);
/// Provider: silence in a stream.
pub const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Identical calls in a row at which the model is reminded, by rising insistence.
pub const REPEAT_REMINDERS: [u32; 3] = [3, 5, 8];
/// Identical calls in a row at which the turn is stopped.
pub const REPEAT_STOP: u32 = 12;
/// Steps in a row whose calls were all rejected by validation, at which the turn is stopped.
pub const INVALID_STOP: u32 = 12;

/// Tool output in characters above which it is saved to a file and previewed.
pub const OUTPUT_CHARS: usize = 50_000;
/// Characters of one line of an output that a tool writes line by line.
pub const OUTPUT_LINE_CHARS: usize = 2000;
/// Outputs of one session kept in files, together; the oldest make room. Chosen: thousands of the usual ones.
pub const SPILL_BYTES: u64 = 256 << 20;
/// The preview.
pub const OUTPUT_PREVIEW_CHARS: usize = 2000;
/// Text in one field of a display; whole texts go with a diff where both have no more.
pub const DISPLAY_BYTES: usize = 64 << 10;
/// A resource's text in a prompt.
pub const RESOURCE_TEXT_BYTES: usize = 256 << 10;
/// The largest image that is ever sent to a model: 5 MiB in base64, which every provider takes.
pub const IMAGE_BYTES: usize = 3_932_160;
/// An image a tool reads is made to fit into this, unless the configuration says otherwise.
pub const IMAGE_READ_BYTES: usize = 262_144;
/// The longer edge images are made to fit, in pixels, unless the configuration says otherwise.
pub const IMAGE_EDGE: u32 = 2000;
/// The longer edge of an image that is sent as it is on request, in pixels: what every provider takes.
pub const IMAGE_FULL_EDGE: u32 = 8000;
/// The largest image or video file that is looked at.
pub const MEDIA_FILE_BYTES: u64 = 100 << 20;
/// The largest image file that is decoded.
pub const IMAGE_DECODE_INPUT_BYTES: usize = 64 << 20;
/// The most pixels of an image that is decoded.
pub const IMAGE_PIXELS: u64 = 100_000_000;
/// Memory that all images being decoded may take together.
pub const IMAGE_DECODE_BYTES: u64 = 512 << 20;
/// Images of the process that are decoded at once.
pub const IMAGE_DECODES: usize = 2;
/// Originals of a session's images; the oldest go first.
pub const MEDIA_KEPT_BYTES: u64 = 1 << 30;

/// Values above this size stand in a journal as a reference to a blob.
pub const JOURNAL_INLINE_BYTES: usize = 64 << 10;
/// Entries of a list page where the host names no limit.
pub const PAGE: usize = 50;
/// Entries of a list page at most.
pub const PAGE_MAX: usize = 200;

/// How long an approval waits while a host that can answer is attached.
pub const APPROVAL_TIMEOUT: Duration = Duration::from_secs(86_400);
/// How long an ask waits while no host that can answer is attached.
pub const DETACHED_WAIT: Duration = Duration::from_secs(1800);

/// How long a host may take to give the text of a file; then the disk is read.
pub const HOST_READ: Duration = Duration::from_secs(10);
/// How long a host may take to take the new text of a file. Some clients never answer for a file that does not exist.
pub const HOST_WRITE: Duration = Duration::from_secs(15);
/// Files above this size are not asked of hosts: no editor holds such a buffer well, and the text travels as one
/// message.
pub const HOST_TEXT_BYTES: u64 = 10 << 20;

/// One AGENTS.md file in the system prompt.
pub const AGENTS_FILE_BYTES: usize = 256 << 10;
/// All AGENTS.md files together.
pub const AGENTS_TOTAL_BYTES: usize = 512 << 10;

/// Cron jobs of one session.
pub const CRON_MAX_JOBS: u32 = 50;
/// A job's prompt, in bytes of UTF-8.
pub const CRON_PROMPT_BYTES: usize = 8192;
/// An expression without an instant in so many days has none.
pub const CRON_HORIZON_DAYS: i64 = 5 * 366;
/// A one-shot job whose first instant is further away than this names a date that has just passed.
pub const CRON_ONE_SHOT_DAYS: i64 = 350;
/// Days after which a recurring job fires for the last time.
pub const CRON_MAX_AGE_DAYS: u32 = 7;
/// A recurring job is late by at most one part in so many of the time to its next instant …
pub const CRON_JITTER_PART: i64 = 10;
/// … and by no more than this.
pub const CRON_JITTER_MAX: Duration = Duration::from_secs(15 * 60);
/// Missed instants that are counted for one fire.
pub const CRON_COALESCE_MAX: u32 = 10_000;
/// Jobs that fire together in one turn.
pub const CRON_BATCH: usize = 8;
/// A one-shot job later than this is not done as if it were fresh: the model is told when it was meant to run.
pub const CRON_MISSED: Duration = Duration::from_secs(86_400);
/// The scheduler looks at the clock at least this often while jobs wait.
pub const CRON_SLEEP_MAX: Duration = Duration::from_secs(30);
/// Wall and monotonic time that differ by more than this in one sleep: somebody set the clock, or the machine slept.
pub const CRON_CLOCK_STEP: Duration = Duration::from_secs(2);
/// First pause before a fire that could not be delivered is tried again; doubled each time, up to [`CRON_RETRY_MAX`].
pub const CRON_RETRY_BASE: Duration = Duration::from_secs(1);
/// Longest pause before that.
pub const CRON_RETRY_MAX: Duration = Duration::from_secs(60);
