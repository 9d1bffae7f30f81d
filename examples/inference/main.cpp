// Acts with a policy file and nothing else of Flotilla: reads observations from stdin, one line of
// numbers each, and prints the choices.
//
//   infer RUN/checkpoints/step_N/model.safetensors
#include <iostream>
#include <iterator>
#include <sstream>
#include <vector>

#include "flotilla/inference/inference.h"

int main(int argc, char** argv) try {
  flotilla::Inference policy(argc == 2 ? argv[1] : "model.safetensors");
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream numbers(line);
    const std::vector<float> obs(std::istream_iterator<float>(numbers), {});
    std::cout << policy.predict(obs).discrete() << std::endl;
  }
} catch (const std::exception& error) {
  std::cerr << "infer: " << error.what() << "\n";
  return 1;
}
