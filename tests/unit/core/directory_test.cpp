#include "flotilla/core/directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "flotilla/core/file.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestInside = 1000;

class DirectoryTest : public testing::Test {
 protected:
  DirectoryTest() {
    std::string name = (fs::temp_directory_path() / "flotilla-directory-XXXXXX").string();
    root_ = ::mkdtemp(name.data());
    fs::create_directory(root_ / "run");
    fs::create_directory(root_ / "outside");
    put("run/file", "inside");
    put("outside/file", "outside");
  }
  ~DirectoryTest() override { fs::remove_all(root_); }

  void put(const std::string& name, const std::string& text) const {
    std::ofstream(root_ / name) << text;
  }
  std::string get(const std::string& name) const {
    return read_whole_file((root_ / name).string(), kLargestInside);
  }
  std::string path(const std::string& name) const { return (root_ / name).string(); }
  Directory run() const { return path("run"); }

  fs::path root_;
};

TEST_F(DirectoryTest, ReadsAndWritesWhatIsInIt) {
  const Directory directory = run();
  EXPECT_EQ(directory.read("file", kLargestInside), "inside");
  directory.write("file", "new");
  directory.write_new("other", "made", true);
  EXPECT_EQ(get("run/file"), "new");
  EXPECT_EQ(directory.names(), (std::vector<std::string>{"file", "other"}));
  directory.make_folder("folder").write_new("deep", "x", false);
  EXPECT_EQ(directory.folder("folder").path("deep"), path("run/folder/deep"));
  EXPECT_FALSE(directory.remove_empty_folder("folder"));
  EXPECT_TRUE(directory.folder("folder").remove_file("deep"));
  EXPECT_TRUE(directory.remove_empty_folder("folder"));
  directory.rename("other", "third");
  EXPECT_FALSE(directory.holds("other"));
  EXPECT_TRUE(directory.holds("third"));
  directory.sync();
}

TEST_F(DirectoryTest, ItsPathMayLeadThroughLinks) {
  fs::create_directory_symlink(root_, root_ / "way");
  fs::create_directory_symlink("way/run", root_ / "link");
  const Directory directory(path("link"));
  EXPECT_EQ(directory.read("file", kLargestInside), "inside");
  EXPECT_TRUE(directory.in_place());
  fs::remove(root_ / "link");
  fs::create_directory_symlink("outside", root_ / "link");
  EXPECT_FALSE(directory.in_place());
  EXPECT_EQ(directory.place(), path("run"));
  directory.write("file", "still the first");
  EXPECT_EQ(get("run/file"), "still the first");
  EXPECT_EQ(get("outside/file"), "outside");
}

TEST_F(DirectoryTest, NoLinkInItIsFollowed) {
  const Directory directory = run();
  fs::create_symlink("../outside/file", root_ / "run/link");
  fs::create_symlink("../outside/new", root_ / "run/dangling");
  fs::create_directory_symlink("../outside", root_ / "run/away");
  const auto refusal = [](const auto& call) { return error_text(ErrorCode::kData, call); };
  const auto why = [this](const char* verb, const char* name) {
    return std::string("cannot ") + verb + " " + path("run/") + name + ": it is a symbolic link";
  };
  EXPECT_EQ(refusal([&] { directory.read("link", kLargestInside); }), why("read", "link"));
  EXPECT_EQ(refusal([&] { AppendFile(directory, "link"); }), why("write", "link"));
  EXPECT_EQ(refusal([&] { AppendFile(directory, "dangling"); }), why("write", "dangling"));
  EXPECT_EQ(refusal([&] { directory.folder("away"); }), why("read", "away"));
  EXPECT_EQ(refusal([&] { directory.make_folder("away"); }), why("read", "away"));
  EXPECT_NE(refusal([&] { directory.write_new("dangling", "x", false); }), "");
  EXPECT_TRUE(directory.holds("dangling"));
  EXPECT_FALSE(directory.remove_empty_folder("away"));
  directory.write("link", "replaced");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(root_ / "run/link")));
  EXPECT_TRUE(directory.remove_file("away"));
  EXPECT_EQ(get("outside/file"), "outside");
  EXPECT_EQ(Directory(path("outside")).names(), std::vector<std::string>{"file"});
}

TEST_F(DirectoryTest, OnlyRegularFilesAreOpened) {
  const Directory directory = run();
  ASSERT_EQ(::mkfifo(path("run/pipe").c_str(), 0600), 0);
  fs::create_directory(root_ / "run/folder");
  for (const std::string name : {"pipe", "folder"}) {
    EXPECT_EQ(error_text(ErrorCode::kData, [&] { directory.read(name, kLargestInside); }),
              "cannot read " + path("run/") + name + ": not a regular file");
    EXPECT_EQ(error_text(ErrorCode::kData, [&] { directory.write(name, "x"); }),
              "cannot write " + path("run/") + name + ": not a regular file");
    EXPECT_NE(error_text(ErrorCode::kData, [&] { AppendFile(directory, name); }), "");
  }
}

TEST_F(DirectoryTest, AFileWithOtherNamesIsReplacedButNotChanged) {
  const Directory directory = run();
  fs::create_hard_link(root_ / "outside/file", root_ / "run/same");
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { AppendFile(directory, "same"); }),
            "cannot write " + path("run/same") +
                ": it has other names (hard links), whose file would change as well");
  directory.write("same", "new");
  EXPECT_EQ(get("run/same"), "new");
  EXPECT_EQ(get("outside/file"), "outside");
}

TEST_F(DirectoryTest, ANameIsOneStep) {
  const Directory directory = run();
  for (const std::string name : {"", ".", "..", "../outside/file", "/etc/hostname", "a/b"}) {
    EXPECT_EQ(error_text(ErrorCode::kInternal, [&] { directory.read(name, kLargestInside); }),
              "'" + name + "' is not the name of a file");
    EXPECT_EQ(error_text(ErrorCode::kInternal, [&] { directory.write(name, "x"); }),
              "'" + name + "' is not the name of a file");
  }
}

TEST_F(DirectoryTest, SaysWhatCannotBeOpened) {
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { Directory{path("none")}; }),
            "cannot open '" + path("none") + "': No such file or directory");
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { Directory{path("run/file")}; }),
            "cannot open '" + path("run/file") + "': Not a directory");
  EXPECT_TRUE(error_text(ErrorCode::kUsage, [&] {
                Directory::make(path("run/file/x"));
              }).starts_with("cannot make '" + path("run/file/x") + "'"));
}

}  // namespace
}  // namespace flotilla::test
