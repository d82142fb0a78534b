"""A stock WordPress as Debian packages it, on a throwaway Apache with mod_php and a throwaway MariaDB.

The package is downloaded by apt and unpacked into the playground, without an installation: `apt-get install wordpress` would
start a web server of the system. Its files are used as they are; only wp-config.php, which in Debian reads /etc/wordpress, is
written here. WordPress installs itself by the POST that its own form sends. Posts and comments are then inserted as rows: text
of made-up words, the same at each run.
"""

import contextlib
import http.client
import json
import os
import pwd
import random
import shutil
import socket
import subprocess
import time
import urllib.parse
from pathlib import Path
from typing import Dict, Iterator, List, Optional

from auction_site import MODULES, need_modules
from processes import Trouble, children, run
from servers import HARDMETER, Playground, undisturbed

PACKAGES = ("wordpress", "wordpress-theme-twentytwentythree")
APACHE, APACHE_MODULES, MARIADB = Path("/usr/sbin/apache2"), Path("/usr/lib/apache2/modules"), Path("/usr/sbin/mariadbd")
WORKERS = 16
POSTS, COMMENTS_EACH, WORDS_EACH = 2000, 4, 500
AUTHOR, PASSWORD = "editor", "a throwaway password"
CONFIGURATION = """<?php
define('DB_NAME', 'wordpress'); define('DB_USER', 'root'); define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:{socket}');
define('WP_CONTENT_DIR', '{content}');
define('DISABLE_WP_CRON', true); define('WP_HTTP_BLOCK_EXTERNAL', true); define('AUTOMATIC_UPDATER_DISABLED', true);
{salts}
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
"""
SALTS = ("AUTH_KEY", "SECURE_AUTH_KEY", "LOGGED_IN_KEY", "NONCE_KEY", "AUTH_SALT", "SECURE_AUTH_SALT", "LOGGED_IN_SALT", "NONCE_SALT")
# The rules of Debian's example, doc/examples/htaccess.
APACHE_CONFIGURATION = """ServerRoot "{folder}"
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
DefaultRuntimeDir "{folder}/run"
PidFile "{folder}/run/apache.pid"
ErrorLog "{folder}/run/apache.log"
LogLevel warn
{modules}
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 300
Timeout 300
ServerLimit {workers}
StartServers {workers}
MinSpareServers {workers}
MaxSpareServers {more}
MaxRequestWorkers {workers}
DocumentRoot "{pages}"
TypesConfig /etc/mime.types
DirectoryIndex index.php index.html
<Directory />
  Require all denied
</Directory>
<Directory "{pages}">
  Require all granted
  RewriteEngine On
  RewriteBase /
  RewriteRule ^index\\.php$ - [L]
  RewriteCond %{{REQUEST_FILENAME}} !-f
  RewriteCond %{{REQUEST_FILENAME}} !-d
  RewriteRule . /index.php [L]
</Directory>
<FilesMatch "\\.php$">
  SetHandler application/x-httpd-php
</FilesMatch>
PHPIniDir "{folder}"
SplitEngine On
SplitDirectory "{segments}"
"""
PHP_INI = """display_errors = Off
log_errors = On
memory_limit = 256M
max_execution_time = 300
date.timezone = UTC
zend_extension = opcache
extension = ctype
extension = iconv
extension = tokenizer
extension = mysqlnd
extension = mysqli
extension = "{lent}/php/split.so"
extension = "{lent}/php/split_mysqlnd.so"
split.directory = "{segments}"
"""
LOADED = ("mpm_prefork", "authz_core", "dir", "mime", "env", "rewrite")


class WordPress:
    """A site that runs until the end of the playground."""

    def __init__(self, playground: Playground):
        need_modules()
        for program in (APACHE, APACHE_MODULES / "libphp8.2.so"):
            if not program.exists():
                raise Trouble(f"there is no {program}\n  remedy: make setup")
        self.folder = playground.folder / "wordpress"
        self.segments = self.folder / "split"
        self._database, self._pages = self.folder / "database", self.folder / "pages"
        self._apache: Optional[subprocess.Popen] = None
        self.mariadb, self.port = 0, 0
        self.titles: Dict[str, str] = {}  # by the path of each post, in the order of their dates
        playground.adopt(self)
        self.folder.mkdir()
        self.segments.mkdir()
        self.segments.chmod(0o777)
        self._lend()
        self._unpack()
        self._start_database()
        self._start_apache()
        self._install()
        self.titles = self._fill()

    def remove(self) -> None:
        if self._apache:
            self._apache.terminate()
            try:
                self._apache.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._apache.kill()
            self._apache = None
        if (self._database / "state.json").exists():
            run([HARDMETER, "--quiet", "server", "remove", "--dir", self._database])

    def processes(self) -> List[int]:
        """All processes of the site: Apache's first, its workers, MariaDB."""
        apache = self._apache.pid if self._apache else 0
        return [apache, *children(apache), self.mariadb]

    def connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def switch(self, on: bool) -> None:
        """Switches collecting, and with it placement, of the running servers on or off, as an operator does."""
        run([HARDMETER, "split", "off", "--directory", self.segments, *(["--on"] if on else [])])

    @contextlib.contextmanager
    def analyzed(self, policy: str, *words: str) -> Iterator[None]:
        """With an analyzer."""
        command: List[str] = [str(HARDMETER), "split", "analyze", "--directory", str(self.segments), "--policy", policy, *words]
        with open(self.folder / "analyzer.log", "ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            try:
                yield
                if process.poll() is not None:
                    raise Trouble(f"the analyzer ended: {(self.folder / 'analyzer.log').read_text()[-2000:]}")
            finally:
                with undisturbed():
                    process.terminate()
                    process.wait(timeout=20)

    def background(self) -> List[str]:
        """The kinds that the analyzer has in the background now."""
        state = json.loads((self.segments / "analyzer-state.json").read_text())
        labels = {(one["kind"]["app"], one["kind"]["code"]): one["label"] for one in state["workload"]["kinds"]}
        placed = [(one["kind"]["app"], one["kind"]["code"]) for one in state["plan"]["placements"] if one["background"]]
        return [labels.get(kind, "?").replace(f"{self._pages}/", "") for kind in placed]

    def cookie(self) -> str:
        """The session of the site's editor, who may export."""
        connection = self.connect()
        form = urllib.parse.urlencode({"log": AUTHOR, "pwd": PASSWORD, "wp-submit": "Log In", "testcookie": 1})
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": "wordpress_test_cookie=WP%20Cookie%20check"}
        connection.request("POST", "/wp-login.php", form, headers)
        answer = connection.getresponse()
        answer.read()
        cookies = [value.split(";")[0] for name, value in answer.getheaders() if name.lower() == "set-cookie"]
        if not any(one.startswith("wordpress_logged_in") for one in cookies):
            raise Trouble(f"WordPress does not let its editor in: status {answer.status}\n  remedy: see {self.folder}/run/apache.log")
        return "; ".join(cookies)

    # --- How it is made ---

    def _lend(self) -> None:
        """Copies of the modules: the account of the servers may not be able to read the repository."""
        for name in ("apache/mod_split.so", "php/split.so", "php/split_mysqlnd.so", "mariadb/split.so"):
            copy = self.folder / "lent" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(MODULES / name, copy)

    def _may_be_nice(self, program: Path) -> Path:
        """A copy of a server's program whose threads may come back from the background (CAP_SYS_NICE), where root may give that. In
        production that is `LimitNICE=+0` of the systemd unit. Without the right it is a server like any other."""
        copy = self.folder / "programs" / program.name
        copy.parent.mkdir(exist_ok=True)
        shutil.copy2(program, copy)
        subprocess.run(["setcap", "cap_sys_nice+ep", copy], stderr=subprocess.DEVNULL, check=False)
        return copy

    def _unpack(self) -> None:
        packages, root = self.folder / "packages", self.folder / "root"
        packages.mkdir()
        run(["apt-get", "download", *PACKAGES], cwd=packages)
        for package in packages.glob("*.deb"):
            run(["dpkg-deb", "-x", package, root])
        shutil.move(root / "usr/share/wordpress", self._pages)
        (self._pages / ".htaccess").unlink()  # points to /etc/wordpress

    def _start_database(self) -> None:
        settings = {
            "plugin-dir": f"{self.folder}/lent/mariadb", "plugin-maturity": "experimental", "plugin-load-add": "split",
            "split-directory": self.segments, "innodb_buffer_pool_size": "256M", "innodb_flush_log_at_trx_commit": 2,
            "character-set-server": "utf8mb4",
        }  # fmt: skip
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        server = [HARDMETER, "--quiet", "server"]
        run([*server, "start", "mariadb", "--dir", self._database, *words])
        run([*server, "stop", "--dir", self._database])
        programs = self._may_be_nice(MARIADB).parent
        run([*server, "start", "--dir", self._database, "--programs", programs])
        state = json.loads(run([HARDMETER, "--quiet", "server", "status", "--dir", self._database, "--format", "json"]))
        self.mariadb, self._account = state["pid"], state["account"]
        self._socket = f"{state['socket_folder']}/mariadb.sock"
        self._sql("create database wordpress", "test")

    def _sql(self, text: str, database: str = "wordpress") -> str:
        command = ["mariadb", "--no-defaults", f"--socket={self._socket}", "--user=root", "--batch", "--skip-column-names", database]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Trouble(f"MariaDB: {done.stderr.strip()}")
        return done.stdout

    def _start_apache(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        modules = [f'LoadModule {name}_module "{APACHE_MODULES}/mod_{name}.so"' for name in LOADED]
        modules.append(f'LoadModule php_module "{APACHE_MODULES}/libphp8.2.so"')
        modules.append(f'LoadModule split_module "{self.folder}/lent/apache/mod_split.so"')
        (self.folder / "httpd.conf").write_text(
            APACHE_CONFIGURATION.format(
                folder=self.folder, port=self.port, modules="\n".join(modules), workers=WORKERS,
                more=WORKERS + 1, pages=self._pages, segments=self.segments,
            )  # fmt: skip
        )
        (self.folder / "php.ini").write_text(PHP_INI.format(lent=self.folder / "lent", segments=self.segments))
        salts = "\n".join(f"define('{name}', 'a throwaway salt {number}');" for number, name in enumerate(SALTS))
        content = self._pages / "wp-content"
        (self._pages / "wp-config.php").write_text(CONFIGURATION.format(socket=self._socket, content=content, salts=salts))
        made = self.folder / "run"
        made.mkdir(exist_ok=True)
        account = pwd.getpwnam(self._account)
        os.chown(made, account.pw_uid, account.pw_gid)
        command = [str(self._may_be_nice(APACHE)), "-f", str(self.folder / "httpd.conf"), "-DFOREGROUND"]
        environment = {**os.environ, "PHP_INI_SCAN_DIR": ""}
        with open(self.folder / "apache.out", "ab") as log:
            self._apache = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment,
                user=account.pw_uid, group=account.pw_gid, extra_groups=[],
            )  # fmt: skip
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError):
                self.connect().close()
                break
            if self._apache.poll() is not None or time.monotonic() > deadline:
                raise Trouble(f"Apache does not start: {(self.folder / 'apache.out').read_text()[-1000:]}")
            time.sleep(0.05)
        deadline = time.monotonic() + 10
        while len(children(self._apache.pid)) < WORKERS and time.monotonic() < deadline:
            time.sleep(0.05)

    def _install(self) -> None:
        form = {
            "weblog_title": "A throwaway weblog", "user_name": AUTHOR, "admin_password": PASSWORD,
            "admin_password2": PASSWORD, "pw_weak": "on", "admin_email": "editor@example.invalid", "blog_public": 0,
            "Submit": "Install WordPress", "language": "",
        }  # fmt: skip
        connection = self.connect()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/wp-admin/install.php?step=2", urllib.parse.urlencode(form), headers)
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
        if answer.status != 200 or "Success!" not in body:
            raise Trouble(f"WordPress does not install: status {answer.status}\n  remedy: see {self.folder}/run/apache.log")

    def _fill(self) -> Dict[str, str]:
        """Posts and comments; returns the title by the path of each post."""
        chance = random.Random(1)
        syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
        words = self.words = ["".join(chance.choices(syllables, k=chance.randint(2, 4))) for _ in range(4000)]
        posts, comments, titles = [], [], {}
        for number in range(POSTS):
            title = f"Number {number} of {' '.join(chance.choices(words, k=3))}"
            name, when = f"number-{number}", f"2022-01-01 08:00:00' + interval {number * 12} hour"
            text = "\\n\\n".join(" ".join(chance.choices(words, k=WORDS_EACH // 5)) for _ in range(5))
            path = self._path_of(name, number)
            titles[path] = title
            moment = f"'{when}"
            posts.append(
                f"({number + 1000},1,{moment},{moment},{moment},{moment},'{text}','{title}','','{name}','publish','open','open','',"
                f"'','','',{COMMENTS_EACH},'post')"
            )
            for _ in range(COMMENTS_EACH):
                said = " ".join(chance.choices(words, k=30))
                comments.append(f"({number + 1000},'A reader','r@example.invalid','',{moment},{moment},'{said}','1','comment')")
        self._sql(_insert("wp_posts", POST_COLUMNS, posts) + _insert("wp_comments", COMMENT_COLUMNS, comments))
        self._sql(
            "insert into wp_term_relationships select ID, 1, 0 from wp_posts where ID >= 1000;"
            f"update wp_term_taxonomy set count = {POSTS + 1} where term_taxonomy_id = 1; analyze table wp_posts, wp_comments;"
        )
        return titles

    def _path_of(self, name: str, number: int) -> str:
        form = self._sql("select option_value from wp_options where option_name = 'permalink_structure'").strip()
        if not hasattr(self, "permalinks"):
            self.permalinks = form
        day = time.gmtime(1_641_024_000 + number * 12 * 3600)
        if not form:
            return f"/?p={number + 1000}"
        for word, value in (("year", "%Y"), ("monthnum", "%m"), ("day", "%d")):
            form = form.replace(f"%{word}%", time.strftime(value, day))
        return form.replace("%postname%", name)


POST_COLUMNS = (
    "ID,post_author,post_date,post_date_gmt,post_modified,post_modified_gmt,post_content,post_title,post_excerpt,post_name,post_status,"
    "comment_status,ping_status,post_password,to_ping,pinged,post_content_filtered,comment_count,post_type"
)
COMMENT_COLUMNS = (
    "comment_post_ID,comment_author,comment_author_email,comment_author_url,comment_date,comment_date_gmt,comment_content,"
    "comment_approved,comment_type"
)


def _insert(table: str, columns: str, rows: List[str]) -> str:
    parts = [rows[at : at + 200] for at in range(0, len(rows), 200)]
    return "".join(f"insert into {table} ({columns}) values {','.join(part)};\n" for part in parts)
