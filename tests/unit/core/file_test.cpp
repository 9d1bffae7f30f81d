#include "flotilla/core/file.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "flotilla/core/error.h"
#include "support/child.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
constexpr size_t kLargestRead = 1u << 20u;
constexpr uid_t kNobody = 65534;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "flotilla-file-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  std::vector<std::string> names(const std::string& below = "") const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(dir_ / below)) {
      all.push_back(entry.path().filename().string());
    }
    std::ranges::sort(all);
    return all;
  }

  static std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static void put(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  static std::string read_error(const std::string& path, size_t limit = kLargestRead) {
    return error_text(ErrorCode::kData, [&] { read_whole_file(path, limit); });
  }

  static std::string write_error(const std::string& path, const std::string& text = "new") {
    return error_text(ErrorCode::kData, [&] { write_file_atomically(path, text); });
  }

  fs::path dir_;
};

struct Unmounted {
  std::string path;
  ~Unmounted() { umount2(path.c_str(), MNT_DETACH); }
};

using Names = std::vector<std::string>;

TEST(FilesBesideTheProgram, AreFoundInItsFolderAndTheOneAbove) {
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const std::string name = self.filename().string(),
                    folder = self.parent_path().filename().string();
  EXPECT_EQ(find_beside_program(name), self.string());
  EXPECT_EQ(find_beside_program(folder), self.parent_path().string());
  EXPECT_EQ(find_beside_program("no such file"), "");
}

TEST(FilesBesideTheProgram, ThisCodeIsInItsFolderWhereThatIsKnown) {
  const std::string folder = code_folder();  // "" when it was called by a name alone
  if (!folder.empty()) {
    EXPECT_TRUE(fs::equivalent(folder, fs::read_symlink("/proc/self/exe").parent_path()));
  }
}

TEST_F(Files, WrittenIsRead) {
  std::string binary;
  for (int i = 0; i < 300'000; ++i) binary += static_cast<char>(i * 7);
  for (const std::string& text : {std::string(), std::string("one"), binary}) {
    write_file_atomically(path("a"), text);
    EXPECT_EQ(contents(path("a")), text);
    EXPECT_EQ(read_whole_file(path("a"), kLargestRead), text);
    EXPECT_EQ(names(), Names{"a"});
  }
  EXPECT_EQ(fs::status(path("a")).permissions() & fs::perms::owner_all,
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(Files, PathsWithoutADirectoryAreOfTheCurrentOne) {
  const fs::path before = fs::current_path();
  fs::current_path(dir_);
  write_file_atomically("here", "text");
  const std::string text = read_whole_file("here", 4);
  fs::current_path(before);
  EXPECT_EQ(text, "text");
  EXPECT_EQ(names(), Names{"here"});
}

TEST_F(Files, WhatCannotBeReadIsNamed) {
  EXPECT_EQ(read_error(path("none")),
            "cannot read " + path("none") + ": No such file or directory");
  EXPECT_EQ(read_error(""), "cannot read : No such file or directory");
  EXPECT_EQ(read_error(dir_.string()), "cannot read " + dir_.string() + ": not a regular file");
  EXPECT_EQ(read_error("/dev/zero"), "cannot read /dev/zero: not a regular file");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_error(path("pipe")), "cannot read " + path("pipe") + ": not a regular file");
  put(path("file"), "x");
  EXPECT_EQ(read_error(path("file/below")),
            "cannot read " + path("file/below") + ": Not a directory");
  EXPECT_EQ(read_error(path(std::string(300, 'n'))),
            "cannot read " + path(std::string(300, 'n')) + ": File name too long");
  EXPECT_EQ(read_error(path("file") + std::string("\0x", 2)),
            "cannot read " + path("file") + ": a NUL in its name");
  fs::create_symlink(path("loop"), path("loop"));
  EXPECT_EQ(read_error(path("loop")),
            "cannot read " + path("loop") + ": Too many levels of symbolic links");
}

TEST_F(Files, TheLimitIsTheLastSizeThatIsRead) {
  put(path("ten"), "0123456789");
  EXPECT_EQ(read_whole_file(path("ten"), 10), "0123456789");
  EXPECT_EQ(read_error(path("ten"), 9),
            "cannot read " + path("ten") + ": it has more than 9 bytes");
  EXPECT_EQ(read_error(path("ten"), 0),
            "cannot read " + path("ten") + ": it has more than 0 bytes");
  put(path("none"), "");
  EXPECT_EQ(read_whole_file(path("none"), 0), "");
  // A size that nobody could allocate.
  fs::resize_file(path("ten"), uintmax_t{1} << 43);
  EXPECT_EQ(read_error(path("ten")),
            "cannot read " + path("ten") + ": it has more than 1048576 bytes");
}

TEST_F(Files, ASizeThatIsNotSaidIsFound) {
  const std::string status = read_whole_file("/proc/self/status", kLargestRead);
  EXPECT_TRUE(status.starts_with("Name:")) << status;
  EXPECT_EQ(status.back(), '\n');
  EXPECT_EQ(read_error("/proc/self/status", 10),
            "cannot read /proc/self/status: it has more than 10 bytes");
}

TEST_F(Files, WhatCannotBeWrittenIsNamedAndLeavesNothing) {
  EXPECT_EQ(write_error(path("no/a")),
            "cannot write " + path("no/a") + ": No such file or directory");
  EXPECT_EQ(write_error(""), "cannot write : No such file or directory");
  EXPECT_EQ(write_error("/"), "cannot write /: Is a directory");
  put(path("file"), "old");
  EXPECT_EQ(write_error(path("file/a")), "cannot write " + path("file/a") + ": Not a directory");
  EXPECT_EQ(write_error(path("file") + std::string("\0x", 2)),
            "cannot write " + path("file") + ": Invalid argument");
  fs::create_directory(path("folder"));
  EXPECT_EQ(write_error(path("folder")), "cannot write " + path("folder") + ": Is a directory");
  EXPECT_EQ(write_error(path("folder/")), "cannot write " + path("folder/") + ": Is a directory");
  EXPECT_EQ(contents(path("file")), "old");
  EXPECT_EQ(names(), (Names{"file", "folder"}));
  EXPECT_EQ(names("folder"), Names{});
}

TEST_F(Files, APlaceForAReportIsRefusedBeforeTheWork) {
  put(path("old.svg"), "<svg/>");
  put(path("run.json"), "{}");
  ASSERT_EQ(mkfifo(path("pipe.svg").c_str(), 0600), 0);
  const auto refused = [this](ErrorCode code, const std::string& name) {
    return error_text(code, [&] { require_report_place(path(name), ".svg"); });
  };
  for (const char* name : {"old.svg", "new.svg", "new"}) {
    EXPECT_NO_THROW(require_report_place(path(name), ".svg")) << name;
  }
  EXPECT_EQ(refused(ErrorCode::kUsage, "run.json"),
            "'" + path("run.json") + "' is there already and no .svg file; give another name");
  EXPECT_EQ(refused(ErrorCode::kData, "pipe.svg"),
            "cannot write " + path("pipe.svg") + ": not a regular file");
  EXPECT_EQ(refused(ErrorCode::kData, "."), "cannot write " + path(".") + ": Is a directory");
  EXPECT_EQ(refused(ErrorCode::kData, "none/new.svg"),
            "cannot write " + path("none/new.svg") + ": No such file or directory");
  EXPECT_EQ(names(), (std::vector<std::string>{"old.svg", "pipe.svg", "run.json"}));
}

TEST_F(Files, NamesMayBeAsLongAsTheSystemAllows) {
  const std::string longest(255, 'n');
  write_file_atomically(path(longest), "text");
  EXPECT_EQ(read_whole_file(path(longest), kLargestRead), "text");
  EXPECT_EQ(write_error(path(longest + "n")),
            "cannot write " + path(longest + "n") + ": File name too long");
  EXPECT_EQ(names(), Names{longest});
}

TEST_F(Files, ASymbolicLinkIsReplacedNotFollowed) {
  put(path("target"), "old");
  fs::create_symlink("target", path("link"));
  write_file_atomically(path("link"), "new");
  EXPECT_FALSE(fs::is_symlink(path("link")));
  EXPECT_EQ(contents(path("target")), "old");
  EXPECT_EQ(contents(path("link")), "new");
}

TEST_F(Files, DevicesAndPipesAreNotReplaced) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", path("link"));
  fs::create_symlink("/dev/null", path("null"));
  for (const char* name : {"pipe", "link", "null"}) {
    EXPECT_EQ(write_error(path(name)), "cannot write " + path(name) + ": not a regular file");
  }
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(names(), (Names{"link", "null", "pipe"}));
}

// A reader who has the old file open keeps it whole.
TEST_F(Files, ReadersOfTheOldFileAreNotDisturbed) {
  write_file_atomically(path("a"), std::string(100'000, 'o'));
  std::ifstream reader(path("a"), std::ios::binary);
  ASSERT_EQ(reader.get(), 'o');
  write_file_atomically(path("a"), "new");
  const std::string rest{std::istreambuf_iterator<char>(reader), {}};
  EXPECT_EQ(rest, std::string(99'999, 'o'));
  EXPECT_EQ(contents(path("a")), "new");
}

TEST_F(Files, WhatAKilledWriterLeftHindersNobody) {
  for (int number = 0; number < 3; ++number) {
    put(path(".flotilla-" + std::to_string(getpid()) + "-" + std::to_string(number) + ".part"),
        "half of a fi");
  }
  fs::create_directory(path(".flotilla-" + std::to_string(getpid()) + "-3.part"));
  const Names before = names();
  write_file_atomically(path("a"), "whole");
  EXPECT_EQ(contents(path("a")), "whole");
  Names after = before;
  after.emplace_back("a");
  std::ranges::sort(after);
  EXPECT_EQ(names(), after);
}

TEST_F(Files, AWriterThatIsKilledLeavesTheOldFile) {
  write_file_atomically(path("a"), "old");
  // The signal of the size limit ends it in the middle of the file.
  const int status = status_of_child([&] {
    std::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{1000, 1000}, no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_FSIZE, &limit);
    write_file_atomically(path("a"), std::string(5000, 'n'));
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) << status;
  EXPECT_EQ(contents(path("a")), "old");
  EXPECT_EQ(names().size(), 2u) << "the file and what the killed one left";
  write_file_atomically(path("a"), "new");
  EXPECT_EQ(contents(path("a")), "new");
}

TEST_F(Files, AFileSizeLimitIsReported) {
  write_file_atomically(path("a"), "old");
  const int status = status_of_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    return write_error(path("a"), std::string(5000, 'n')) ==
                   "cannot write " + path("a") + ": File too large (limit: 1000 B a file)"
               ? 0
               : 1;
  });
  EXPECT_TRUE(exited_with(status, 0)) << status;
  EXPECT_EQ(contents(path("a")), "old");
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(Files, AFullDiskIsReported) {
  fs::create_directory(path("tiny"));
  if (mount("tmpfs", path("tiny").c_str(), "tmpfs", 0, "size=8k") != 0) {
    GTEST_SKIP() << "no tmpfs can be mounted here";
  }
  const Unmounted at_the_end{path("tiny")};
  write_file_atomically(path("tiny/a"), "old");
  EXPECT_EQ(write_error(path("tiny/a"), std::string(20'000, 'n')),
            "cannot write " + path("tiny/a") + ": No space left on device");
  EXPECT_EQ(contents(path("tiny/a")), "old");
  EXPECT_EQ(names("tiny"), Names{"a"});
  // What the failed one had taken is free again.
  write_file_atomically(path("tiny/a"), std::string(4096, 'n'));
  EXPECT_EQ(contents(path("tiny/a")), std::string(4096, 'n'));
  ASSERT_EQ(mount("tmpfs", path("tiny").c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, ""), 0);
  EXPECT_EQ(write_error(path("tiny/a")),
            "cannot write " + path("tiny/a") + ": Read-only file system");
}

// Root may write everywhere, so a child does it as somebody else.
TEST_F(Files, PermissionsAreReported) {
  write_file_atomically(path("a"), "old");
  put(path("secret"), "mine");
  fs::permissions(path("secret"), fs::perms::none);
  fs::permissions(dir_, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                            fs::perms::others_exec);
  const int status = status_of_child([&] {
    if (geteuid() == 0 && setuid(kNobody) != 0) return 2;
    if (write_error(path("a")) != "cannot write " + path("a") + ": Permission denied") return 3;
    if (read_error(path("secret")) != "cannot read " + path("secret") + ": Permission denied") {
      return 4;
    }
    return 0;
  });
  fs::permissions(dir_, fs::perms::owner_all);
  EXPECT_TRUE(exited_with(status, 0)) << status;
  EXPECT_EQ(contents(path("a")), "old");
  EXPECT_EQ(names(), (Names{"a", "secret"}));
}

// Every state that can be seen is one that somebody wrote whole.
TEST_F(Files, WritersOfOneFileDoNotMix) {
  constexpr int kWriters = 3, kRounds = 30;
  constexpr size_t kBytes = 50'000;
  write_file_atomically(path("a"), std::string(kBytes, 'z'));
  std::vector<std::thread> writers;
  writers.reserve(kWriters);
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      for (int round = 0; round < kRounds; ++round) {
        write_file_atomically(path("a"), std::string(kBytes, static_cast<char>('a' + writer)));
      }
    });
  }
  for (int round = 0; round < 200; ++round) {
    const std::string seen = read_whole_file(path("a"), kLargestRead);
    EXPECT_EQ(seen, std::string(kBytes, seen.empty() ? '?' : seen[0]));
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(names(), Names{"a"});
}

}  // namespace
}  // namespace flotilla::test
