// The file by which the processes of one host find each other: rank 0 makes it, with its own number
// and time of birth in the name, so that what an earlier start left behind is not taken for it.
#pragma once

#include <string>

#include "flotilla/core/launch.h"

namespace flotilla {

class MeetingFile {
 public:
  // Rank 0 makes it; the others wait for it. Throws Error(kEnvironment) after the deadline.
  MeetingFile(const Launch& launch, double deadline_s);

  // Whether a process that lives has made one of this id.
  static bool exists(const std::string& id);

  const std::string& path() const { return path_; }
  void remove() const;

 private:
  std::string path_;
};

}  // namespace flotilla
